"""The death of a peer of the other implementation is an error, and its successor is reached."""

import time

import pytest

from .conftest import TRANSPORTS, Agent, AgentError, peer_python

BLOCK = 1 << 20
# UCX looks after its peers once a second, and ours at what it finds four times a second; ten times that is the bound.
TOLD_WITHIN_S = 30
# Where the endings of peers are seen over shared memory alone.
SHARED = {"UCX_TLS": "posix,sysv,self", "UCX_POSIX_ERROR_HANDLING": "y", "UCX_SYSV_ERROR_HANDLING": "y"}


def test_a_peer_dies_and_returns(make_agent, kinds):
    initiator, target = (make_agent(kind, side) for kind, side in zip(kinds, ("initiator", "target")))
    local, remote = initiator.region("local", BLOCK, 71), target.region("remote", BLOCK, 72)
    initiator.learn(target)

    def write():
        blocks = {"local": local.blocks([0], BLOCK), "remote": remote.blocks([0], BLOCK)}
        initiator.call("transfer", operation="WRITE", peer=target.name, message=b"written", **blocks)

    write()
    target.process.kill()
    with pytest.raises(AgentError) as raised:
        write()
    assert raised.value.args[0] == "nixlRemoteDisconnectError", raised.value
    initiator.call("remove", peer=target.name)

    target = make_agent(kinds[1], "target", target.name)
    remote = target.region("remote", BLOCK, 73)
    initiator.learn(target)
    write()
    assert target.call("messages", count=1) == {initiator.name: [b"written"]}
    remote.expected[:] = local.expected
    remote.check(4096)


@pytest.mark.parametrize("transports", [TRANSPORTS["tcp"], SHARED], ids=["tcp", "shared-memory-alone"])
def test_the_death_of_an_idle_peer_is_told(process_of, transports):
    """A plain peer answers no sign of life of ours; UCX's own keep-alive sees it end."""
    peer_python()
    initiator = Agent(process_of("ours", "idle initiator", transports), "initiator")
    target = Agent(process_of("wheel", "idle target", transports), "target")
    local, remote = initiator.region("local", BLOCK, 71), target.region("remote", BLOCK, 72)
    initiator.learn(target)
    blocks = {"local": local.blocks([0], BLOCK), "remote": remote.blocks([0], BLOCK)}
    initiator.call("transfer", operation="WRITE", peer="target", message=b"", **blocks)
    time.sleep(3)
    events = initiator.call("peer_events")
    assert ["target", "lost"] not in events, "it lives"
    target.process.kill()
    end = time.monotonic() + TOLD_WITHIN_S
    while ["target", "lost"] not in events:
        assert time.monotonic() < end, events
        time.sleep(0.05)
        events += initiator.call("peer_events")
    initiator.call("drop")

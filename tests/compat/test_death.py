"""The death of a peer of the other implementation is an error, and its successor is reached."""

import pytest

from .conftest import AgentError

BLOCK = 1 << 20


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

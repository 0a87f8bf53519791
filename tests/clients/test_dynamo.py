"""Dynamo's ways of using an agent."""

import json
from base64 import b64decode, b64encode

import pytest
from agents import Memory, Tensor, finish, wait_until
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config

BLOCK = 128 << 10
BLOCKS = 32


def default_agent(name):
    return nixl_agent(name)


def configured_agent(name):
    return nixl_agent(name, nixl_agent_config(num_threads=8, capture_telemetry=True))


def reader(channel, make):
    agent = make("reader")
    assert list(agent.backends) == ["UCX"]
    memory = Memory(BLOCKS, BLOCK, 1)
    # The fourth element names the device; engines for memory do not read it.
    regions = agent.register_memory(agent.get_reg_descs([(memory.addr, BLOCKS * BLOCK, 0, "cpu")], "DRAM"))
    assert isinstance(regions, nixlBind.nixlRegDList)
    offer = {"metadata": b64encode(agent.get_agent_metadata()).decode(), "padding": "x" * 6000}
    writer_metadata, base, wanted = channel.receive()
    peer = agent.add_remote_agent(writer_metadata)
    agent.send_notif(peer, notif_msg=json.dumps(offer).encode())
    order = list(range(BLOCKS))[::-1]
    handle = agent.initialize_xfer(
        operation="READ",
        local_descs=agent.get_xfer_descs(memory.descs(), "DRAM"),
        remote_descs=agent.get_xfer_descs([(base + i * BLOCK, BLOCK, 0) for i in order], "DRAM"),
        remote_agent=peer,
        notif_msg=b"read 1",
    )
    agent.transfer(handle, b"read 2")
    finish(agent, handle)
    assert [memory.bytes_of(i) for i in order] == [wanted[i * BLOCK : (i + 1) * BLOCK] for i in range(BLOCKS)]
    agent.release_xfer_handle(handle)
    channel.send("read")
    # The other side knows this agent by the notification alone.
    assert wait_until(lambda: agent.update_notifs().get("writer"), "the answer") == [b"known"]
    agent.notifs["writer"].remove(b"known")
    assert agent.update_notifs() == {"writer": []}
    agent.deregister_memory(regions)
    channel.send("done")


def writer(channel, make):
    agent = make("writer")
    memory = Memory(BLOCKS, BLOCK, 2)
    agent.register_memory(Tensor(memory))
    channel.send((agent.get_agent_metadata(), memory.addr, memory.data.tobytes()))
    assert channel.receive() == "read"
    messages = wait_until(
        lambda: len(agent.update_notifs().get("reader", [])) == 2 and agent.notifs["reader"], "two messages"
    )
    # Of the two messages for the transfer, the one of the post counts.
    messages.remove(b"read 2")
    (offer,) = messages
    peer = agent.add_remote_agent(b64decode(json.loads(offer)["metadata"]))
    assert peer == b"reader"
    agent.send_notif(peer, b"known")
    assert channel.receive() == "done"


def default_reader(channel):
    reader(channel, default_agent)


def default_writer(channel):
    writer(channel, default_agent)


def configured_reader(channel):
    reader(channel, configured_agent)


def configured_writer(channel):
    writer(channel, configured_agent)


@pytest.mark.parametrize(
    "pair", [(default_reader, default_writer), (configured_reader, configured_writer)], ids=["default", "configured"]
)
def test_a_reader_and_a_writer(roles, pair):
    roles(*pair)

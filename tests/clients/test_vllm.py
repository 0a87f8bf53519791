"""vLLM's ways of using an agent: the KV connector, its sleep mode, the P2P tier, encoder caches, expert balancing."""

import os
import uuid

import numpy as np
import pytest
from agents import Memory, Tensor, finish, wait_until

# vLLM sets it before its first import of the package; UCX reads it when it is opened.
os.environ.setdefault("UCX_RCACHE_MAX_UNRELEASED", "1024")

from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config
from nixl._bindings import nixlXferTelemetry

BLOCK = 16 << 10
BLOCKS = 128
LAYERS = 4


class KvCache:
    """One region per layer, each of BLOCKS blocks."""

    def __init__(self, seed):
        self.layers = [Memory(BLOCKS, BLOCK, seed + layer) for layer in range(LAYERS)]

    @property
    def regions(self):
        return [layer.region for layer in self.layers]

    @property
    def bases(self):
        return [layer.addr for layer in self.layers]

    def block(self, index):
        return [layer.bytes_of(index) for layer in self.layers]


def rows(bases):
    """An Nx5 array of strided rows: a row per layer, whose blocks are counted across the rows."""
    return np.array([(base, BLOCK, 0, BLOCK, BLOCKS) for base in bases], np.uint64)


def block_ids(blocks):
    """Indices of these blocks in every layer."""
    return np.concatenate([np.array(blocks, np.int32) + layer * BLOCKS for layer in range(LAYERS)])


def handshake(agent, cache):
    return {"engine": agent.name, "metadata": agent.get_agent_metadata(), "bases": cache.bases}


def read_blocks(agent, cache, peer, bases, mine, theirs, message):
    """As the decoding worker pulls the blocks of a request."""
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(cache.bases), "DRAM")
    remote = agent.prep_xfer_dlist(peer, rows(bases), "DRAM")
    handle = agent.make_prepped_xfer("READ", local, block_ids(mine), remote, block_ids(theirs), notif_msg=message)
    assert agent.transfer(handle) in ("DONE", "PROC")
    finish(agent, handle)
    telemetry = agent.get_xfer_telemetry(handle)
    assert isinstance(telemetry, nixlXferTelemetry)
    assert telemetry.totalBytes == len(mine) * LAYERS * BLOCK and telemetry.descCount > 0
    assert telemetry.xferDuration / 1e6 >= 0 and telemetry.postDuration / 1e6 >= 0
    assert agent.query_xfer_backend(handle) == "UCX"
    if os.environ.get("NIXL_LOCAL") == "off":
        assert "tcp" in agent.explain(handle).path
    agent.release_xfer_handle(handle)
    agent.release_dlist_handle(local)
    agent.release_dlist_handle(remote)


def messages_of(agent, count):
    found = []

    def arrived():
        for messages in agent.get_new_notifs().values():
            found.extend(messages)
        return len(found) >= count

    wait_until(arrived, f"{count} messages")
    return found


# ---- The connector: prefill registers, decode reads ----


def prefill(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(num_threads=4, capture_telemetry=True))
    cache = KvCache(10)
    descs = agent.get_reg_descs(cache.regions, "DRAM")
    assert agent.register_memory(descs, backends=["UCX"])
    channel.send(handshake(agent, cache))
    assert channel.receive() == [cache.block(index) for index in (9, 3, 4, 5)], "what decode has read"
    assert sorted(messages_of(agent, 2)) == [b"HB:req1,req2", b"req1:4"]
    channel.send("done")
    agent.deregister_memory(descs)


def decode(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(num_threads=4, capture_telemetry=True))
    cache = KvCache(20)
    untouched = cache.block(2)
    agent.register_memory(agent.get_reg_descs(cache.regions, "DRAM"), backends=["UCX"])
    peer = channel.receive()
    name = agent.add_remote_agent(peer["metadata"])
    assert name == peer["engine"].encode()
    assert agent.check_remote_metadata(name) is True
    agent.send_notif(name, notif_msg=b"HB:req1,req2")
    read_blocks(agent, cache, name, peer["bases"], [0, 1, 100, 127], [9, 3, 4, 5], b"req1:4")
    assert cache.block(2) == untouched
    channel.send([cache.block(index) for index in (0, 1, 100, 127)])
    assert channel.receive() == "done"
    agent.remove_remote_agent(name)
    assert agent.check_remote_metadata(name) is False


def test_connector_reads_blocks(roles):
    roles(prefill, decode)


# ---- Sleep mode: the same list is registered again, and metadata is fetched again ----


def sleeper(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(backends=[]))
    agent.create_backend("UCX", {"num_threads": "4", "engine_config": "RCACHE_ENABLE=n,TLS=^cuda_ipc"})
    cache = KvCache(30)
    descs = agent.get_reg_descs(cache.regions, "DRAM")
    agent.register_memory(descs, backends=["UCX"])
    channel.send(handshake(agent, cache))
    assert channel.receive() == cache.block(7)
    agent.deregister_memory(descs)
    channel.send("asleep")
    assert channel.receive() == "wake up"
    for layer in cache.layers:
        layer.data[:] = ~layer.data
    agent.register_memory(descs, backends=["UCX"])
    channel.send(handshake(agent, cache))
    assert channel.receive() == cache.block(7)


def reader_of_sleeper(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(num_threads=4, capture_telemetry=True))
    cache = KvCache(40)
    agent.register_memory(agent.get_reg_descs(cache.regions, "DRAM"), backends=["UCX"])
    for wake_up in (True, False):
        peer = channel.receive()
        name = agent.add_remote_agent(peer["metadata"])
        read_blocks(agent, cache, name, peer["bases"], [5], [7], b"")
        channel.send(cache.block(5))
        if wake_up:
            assert channel.receive() == "asleep"
            agent.remove_remote_agent(name)
            channel.send("wake up")


def test_sleep_mode(roles):
    roles(sleeper, reader_of_sleeper)


# ---- P2P tier: written by the owner of the blocks ----


def p2p_agent():
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(backends=[], capture_telemetry=True))
    agent.create_backend("UCX", {"engine_config": "TLS=^rc_gda", "num_threads": "4"})
    return agent


def p2p_source(channel):
    agent = p2p_agent()
    cache = KvCache(50)
    agent.register_memory(cache.regions, "DRAM")
    peer = channel.receive()
    name = agent.add_remote_agent(peer["metadata"])
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(cache.bases), "DRAM")
    remote = agent.prep_xfer_dlist(name, rows(peer["bases"]), "DRAM")
    for start in range(0, BLOCKS, 32):
        blocks = list(range(start, start + 32))
        handle = agent.make_prepped_xfer(
            "WRITE", local, block_ids(blocks), remote, block_ids(blocks[::-1]), b"%d" % start
        )
        agent.transfer(handle)
        wait_until(lambda handle=handle: agent.check_xfer_state(handle) in ("DONE", "ERR"), "the end of a transfer")
        assert agent.check_xfer_state(handle) == "DONE"
        agent.release_xfer_handle(handle)
    assert channel.receive() == [
        cache.block(index) for start in range(0, BLOCKS, 32) for index in reversed(range(start, start + 32))
    ]


def p2p_sink(channel):
    agent = p2p_agent()
    cache = KvCache(60)
    agent.register_memory(cache.regions, "DRAM")
    channel.send(handshake(agent, cache))
    assert sorted(messages_of(agent, 4)) == [b"0", b"32", b"64", b"96"]
    channel.send([cache.block(index) for index in range(BLOCKS)])


def test_p2p_tier_writes(roles):
    roles(p2p_source, p2p_sink)


# ---- Encoder cache: a few large tensors ----


def encoder(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(num_threads=1, capture_telemetry=True))
    tensor = Memory(1, 3 << 20, 70)
    regions = agent.register_memory(Tensor(tensor))
    channel.send((agent.get_agent_metadata(), agent.get_serialized_descs(regions.trim())))
    assert messages_of(agent, 1) == [b"mm_hash"]
    assert channel.receive() == tensor.data.tobytes()
    agent.deregister_memory(regions)


def encoder_reader(channel):
    agent = nixl_agent(str(uuid.uuid4()), nixl_agent_config(num_threads=1, capture_telemetry=True))
    tensor = Memory(1, 3 << 20, 71)
    regions = agent.register_memory(Tensor(tensor))
    metadata, serialized = channel.receive()
    name = agent.add_remote_agent(metadata)
    remote = agent.deserialize_descs(serialized)
    handle = agent.initialize_xfer("READ", agent.get_xfer_descs(Tensor(tensor)), remote, name, b"mm_hash")
    agent.transfer(handle)
    finish(agent, handle)
    channel.send(tensor.data.tobytes())
    agent.release_xfer_handle(handle)
    agent.deregister_memory(regions)


def test_encoder_cache(roles):
    roles(encoder, encoder_reader)


# ---- Expert balancing: lists of tensors, both sides at once ----


def exchange_experts(channel, seed, name, first):
    agent = nixl_agent(name, nixl_agent_config(capture_telemetry=False))
    weights = [Memory(1, 128 << 10, seed + i) for i in range(3)]
    arriving = [Memory(1, 128 << 10, seed + 10 + i) for i in range(3)]
    for tensors in (weights, arriving):
        assert agent.register_memory(agent.get_reg_descs([Tensor(one) for one in tensors]))
    offer = (agent.get_agent_metadata(), [one.addr for one in weights], [one.data.tobytes() for one in weights])
    if first:
        channel.send(offer)
    metadata, addresses, wanted = channel.receive()
    if not first:
        channel.send(offer)
    peer = agent.add_remote_agent(metadata)
    handle = agent.initialize_xfer(
        "READ",
        agent.get_xfer_descs([Tensor(one) for one in arriving]),
        agent.get_xfer_descs([(address, 128 << 10, 0) for address in addresses], "DRAM"),
        peer,
        b"",
    )
    agent.transfer(handle)
    finish(agent, handle)
    assert [one.data.tobytes() for one in arriving] == wanted
    with pytest.raises(nixlBind.nixlNoTelemetryError):
        agent.get_xfer_telemetry(handle)
    agent.release_xfer_handle(handle)
    channel.send("done")
    assert channel.receive() == "done"


def first_rank(channel):
    exchange_experts(channel, 100, "eplb-0", first=True)


def second_rank(channel):
    exchange_experts(channel, 200, "eplb-1", first=False)


def test_expert_balancing(roles):
    roles(first_rank, second_rank)

"""SGLang's ways of using an agent: prefill and decode servers, and the hierarchical cache."""

import json
import os
import threading

import numpy as np
from agents import Memory, finish, wait_until
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config, nixl_thread_sync_t
from nixl._bindings import nixlBackendError, nixlCancelledError, nixlRemoteDisconnectError

PAGE = 8 << 10
PAGES = 256
FAILURES = (nixlBackendError, nixlCancelledError, nixlRemoteDisconnectError)


def create_with_deadline(agent, backend, params):
    """A server that cannot create its engine in time gives up rather than hangs."""
    failures = []

    def create():
        try:
            agent.create_backend(backend, params)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and not failures, failures
    assert backend in agent.get_plugin_list()


def server(name, num_threads):
    strict = nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT
    agent = nixl_agent(name, nixl_agent_config(backends=[], num_threads=num_threads, sync_mode=strict))
    backend = os.environ.get("SGLANG_DISAGGREGATION_NIXL_BACKEND", "UCX")
    params = json.loads(os.environ.get("SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS", "{}"))
    if num_threads:
        params["num_threads"] = str(num_threads)
    create_with_deadline(agent, backend, params)
    return agent


def registered(agent, memory):
    """Two regions, as for keys and values, and one for auxiliary data."""
    half = memory.data.nbytes // 2
    regions = [(memory.addr, half, 0, ""), (memory.addr + half, half, 0, "")]
    descs = agent.register_memory(regions, "DRAM")
    assert descs, "the server would stop here"
    return descs


def prefill_server(channel, num_threads):
    agent = server("prefill", num_threads)
    cache = Memory(PAGES, PAGE, 1)
    registered(agent, cache)
    metadata, base = channel.receive()
    peer = agent.add_remote_agent(metadata)
    assert agent.add_remote_agent(metadata) == peer
    order = np.random.default_rng(2).permutation(PAGES)

    def lists(pages, at):
        rows = np.array([(at + int(page) * PAGE, PAGE, 0) for page in pages], np.uint64)
        return agent.get_xfer_descs(rows, "DRAM")

    # A chunk of a request at a time, each named by its message.
    chunks = [range(start, start + 64) for start in range(0, PAGES, 64)]
    handles = []
    for number, chunk in enumerate(chunks):
        handle = agent.initialize_xfer(
            "WRITE", lists(chunk, cache.addr), lists(order[chunk], base), peer, f"room_{number}".encode()
        )
        assert handle
        assert agent.transfer(handle) != "ERR"
        handles.append(handle)
    for handle in handles:
        finish(agent, handle)
        agent.release_xfer_handle(handle)

    # The same by lists that are prepared once. A TypeError here would make the server fall back to one row per page.
    def strided(at):
        return np.array([(at + half * PAGES // 2 * PAGE, PAGE, 0, PAGE, PAGES // 2) for half in range(2)], np.uint64)

    local = agent.prep_xfer_dlist("", strided(cache.addr), "DRAM")
    remote = agent.prep_xfer_dlist(peer, strided(base), "DRAM")
    backwards = np.arange(PAGES, dtype=np.int64)[::-1]
    handle = agent.make_prepped_xfer("WRITE", local, np.arange(PAGES, dtype=np.int32), remote, backwards, b"prepared")
    channel.send((cache.data.tobytes(), order))
    assert channel.receive() == "first seen"
    agent.transfer(handle)
    finish(agent, handle)
    agent.release_xfer_handle(handle)
    assert channel.receive() == "second seen"


def decode_server(channel, num_threads):
    agent = server("decode", num_threads)
    cache = Memory(PAGES, PAGE, 3)
    descs = registered(agent, cache)
    assert agent.check_remote_metadata("nobody", descs.trim()) is False
    channel.send((agent.get_agent_metadata(), cache.addr))
    found = []

    def arrived(count):
        # A server asks once per round for what is new.
        found.extend(message for messages in agent.get_new_notifs().values() for message in messages)
        return len(found) >= count

    wait_until(lambda: arrived(4), "the chunks' messages")
    assert sorted(found) == [b"room_0", b"room_1", b"room_2", b"room_3"]
    source, order = channel.receive()
    pages = [source[i * PAGE : (i + 1) * PAGE] for i in range(PAGES)]
    assert [cache.bytes_of(int(order[i])) for i in range(PAGES)] == pages
    channel.send("first seen")
    wait_until(lambda: arrived(5), "the last message")
    assert found[4] == b"prepared"
    assert [cache.bytes_of(i) for i in reversed(range(PAGES))] == pages
    assert agent.check_remote_metadata("prefill") is False, "nobody told decode about it"
    channel.send("second seen")


def prefill_with_threads(channel):
    prefill_server(channel, 8)


def decode_with_threads(channel):
    decode_server(channel, 8)


def prefill_without_threads(channel):
    prefill_server(channel, 0)


def decode_without_threads(channel):
    decode_server(channel, 0)


def test_prefill_writes_into_decode(roles):
    roles(prefill_with_threads, decode_with_threads)


def test_servers_without_threads_of_their_own(roles):
    roles(prefill_without_threads, decode_without_threads)


def test_parameters_from_the_environment(roles, monkeypatch):
    monkeypatch.setenv("SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS", '{"ucx_error_handling_mode": "peer"}')
    roles(prefill_without_threads, decode_without_threads)


# ---- The peer dies ----


def failing_prefill(channel):
    agent = server("prefill", 0)
    cache = Memory(PAGES, PAGE, 4)
    registered(agent, cache)
    metadata, base, pid = channel.receive()
    peer = agent.add_remote_agent(metadata)
    mine = agent.get_xfer_descs(cache.descs(), "DRAM")
    theirs = agent.get_xfer_descs([(base + page * PAGE, PAGE, 0) for page in range(PAGES)], "DRAM")
    handle = agent.initialize_xfer("WRITE", mine, theirs, peer, b"")
    agent.transfer(handle)
    finish(agent, handle)
    os.kill(pid, 9)

    def failed():
        try:
            state = agent.check_xfer_state(handle)
            if state == "DONE":
                agent.transfer(handle)
            return state == "ERR"
        except FAILURES as error:
            return error

    error = wait_until(failed, "the news that the peer is dead")
    assert isinstance(error, nixlRemoteDisconnectError), error
    assert "NIXL_ERR_REMOTE_DISCONNECT" in str(error)
    agent.release_xfer_handle(handle)
    agent.remove_remote_agent(peer)
    assert agent.check_remote_metadata(peer) is False


def dying_decode(channel):
    agent = server("decode", 0)
    cache = Memory(PAGES, PAGE, 5)
    registered(agent, cache)
    channel.send((agent.get_agent_metadata(), cache.addr, os.getpid()))
    channel.receive()


def test_the_decode_server_dies(roles):
    roles(failing_prefill, dying_decode, dies=dying_decode)


# ---- The hierarchical cache ----


def hierarchical_cache(channel):
    # It replaces the inner agent, to choose the synchronisation, and transfers to itself.
    config = nixl_agent_config(backends=[])
    agent = nixl_agent("hicache", config)
    inner = nixlBind.nixlAgentConfig()
    inner.useProgThread = config.enable_pthread
    inner.useListenThread = config.enable_listen
    inner.listenPort = config.port
    inner.captureTelemetry = config.capture_telemetry
    inner.syncMode = getattr(nixlBind, "NIXL_THREAD_SYNC_RW", nixlBind.NIXL_THREAD_SYNC_STRICT)
    agent.agent = nixlBind.nixlAgent("hicache", inner)
    agent.plugin_list = agent.agent.getAvailPlugins()
    agent.create_backend("UCX", {})
    assert isinstance(agent.get_backend_params("UCX"), dict)
    host, pages = Memory(PAGES, PAGE, 6), Memory(PAGES, PAGE, 7)
    regions = [agent.register_memory([memory.region], "DRAM") for memory in (host, pages)]
    assert [region.trim().descCount() for region in regions] == [1, 1]
    for operation, source, target in (("WRITE", host, pages), ("READ", pages, host)):
        source.data[:] = ~source.data
        handle = agent.initialize_xfer(
            operation,
            agent.get_xfer_descs(host.descs(), "DRAM"),
            agent.get_xfer_descs(pages.descs(), "DRAM"),
            "hicache",
        )
        agent.transfer(handle)
        finish(agent, handle)
        agent.release_xfer_handle(handle)
        assert target.data.tobytes() == source.data.tobytes()
    for region in regions:
        agent.deregister_memory(region)


def test_the_hierarchical_cache(roles):
    roles(hierarchical_cache)

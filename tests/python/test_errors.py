"""What fails raises the class of its status, with the status name and the cause in the text."""

import pytest
from agents import Memory, local_agent
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config


@pytest.fixture
def bare():
    """An agent without engines."""
    return nixl_agent("bare", nixl_agent_config(backends=[]))


def check(error, words, call, *arguments, **keywords):
    """The text begins with the status, and a cause that contains `words` follows."""
    with pytest.raises(error) as raised:
        call(*arguments, **keywords)
    text = str(raised.value)
    name, _, cause = text.partition(": ")
    assert name.startswith("NIXL_ERR_"), text
    assert words in cause, text


def test_an_agent_without_engines(bare):
    memory = Memory()
    check(nixlBind.nixlInvalidParamError, "", bare.get_agent_metadata)
    check(nixlBind.nixlBackendError, "", bare.get_new_notifs)
    check(nixlBind.nixlBackendError, "", bare.send_notif, "bare", b"x")
    check(nixlBind.nixlNotFoundError, "DRAM", bare.register_memory, [memory.region], "DRAM")


def test_memory(pair):
    memory = Memory()
    check(nixlBind.nixlNotFoundError, "VRAM", pair.a.register_memory, [memory.region], "VRAM")
    check(nixlBind.nixlInvalidParamError, "", pair.a.register_memory, [((1 << 64) - 8, 16, 0, "")], "DRAM")
    check(nixlBind.nixlInvalidParamError, "", pair.a.register_memory, [(memory.addr, 0, 0, "")], "DRAM")
    check(nixlBind.nixlNotFoundError, "", pair.a.deregister_memory, pair.a.get_reg_descs([memory.region], "DRAM"))
    inside = (pair.source.addr + 512, 512, 0, "")
    check(nixlBind.nixlNotFoundError, "", pair.a.deregister_memory, pair.a.get_reg_descs([inside], "DRAM"))
    with pytest.raises(ValueError, match="'NOPE'.*LOCAL"):
        pair.a.query_memory([(0, 0, 0, "key")], "NOPE", "OBJ")
    check(nixlBind.nixlNotSupportedError, "", pair.a.query_memory, [memory.region], "LOCAL", "DRAM")


def test_prepared_lists(pair):
    memory = Memory()
    check(nixlBind.nixlNotFoundError, "nobody", pair.a.prep_xfer_dlist, "nobody", pair.target.descs(), "DRAM")
    check(nixlBind.nixlNotFoundError, "", pair.a.prep_xfer_dlist, "", memory.descs(), "DRAM")
    check(nixlBind.nixlNotFoundError, "", pair.a.prep_xfer_dlist, "beta", memory.descs(), "DRAM")
    empty = nixlBind.nixlXferDList(nixlBind.DRAM_SEG)
    check(nixlBind.nixlNotFoundError, "", pair.a.prep_xfer_dlist, "", empty)
    with pytest.raises(KeyError, match="NOPE"):
        pair.a.prep_xfer_dlist("", pair.source.descs(), "DRAM", backends=["NOPE"])


def test_requests(pair):
    local, remote = pair.prepared()
    check(nixlBind.nixlInvalidParamError, "", pair.a.make_prepped_xfer, "WRITE", remote, [0], local, [0])
    with pytest.raises(KeyError, match="write"):
        pair.a.make_prepped_xfer("write", local, [0], remote, [0])
    xfer = pair.a.get_xfer_descs
    one, two = xfer(pair.source.descs()[:1], "DRAM"), xfer(pair.target.descs()[:2], "DRAM")
    check(nixlBind.nixlInvalidParamError, "", pair.a.initialize_xfer, "WRITE", one, two, "beta")
    check(nixlBind.nixlNotFoundError, "nobody", pair.a.initialize_xfer, "WRITE", one, one, "nobody")
    for wrong in (None, [(1, 2, 3)]):
        with pytest.raises(TypeError):
            pair.a.initialize_xfer("WRITE", wrong, one, "beta")


def test_stale_lists_and_requests(pair):
    local, remote = pair.prepared()
    handle = pair.a.make_prepped_xfer("WRITE", local, [0], remote, [0])
    pair.a.remove_remote_agent("beta")
    check(nixlBind.nixlNotFoundError, "", pair.a.transfer, handle)
    check(nixlBind.nixlNotFoundError, "", pair.a.make_prepped_xfer, "WRITE", local, [0], remote, [0])
    pair.a.add_remote_agent(pair.b.get_agent_metadata())
    check(nixlBind.nixlNotFoundError, "", pair.a.transfer, handle)
    check(nixlBind.nixlNotFoundError, "", pair.a.make_prepped_xfer, "WRITE", local, [0], remote, [0])


def test_metadata(pair):
    blob = pair.b.get_agent_metadata()
    for junk in (b"", b"xyz", blob[: len(blob) // 2]):
        check(nixlBind.nixlMismatchError, "", pair.a.add_remote_agent, junk)
    check(nixlBind.nixlInvalidParamError, "alpha", pair.a.add_remote_agent, pair.a.get_agent_metadata())
    check(nixlBind.nixlNotFoundError, "nobody", pair.a.make_connection, "nobody")


def test_statuses_that_are_returned(pair):
    agent = pair.a.agent
    empty = nixlBind.nixlXferDList(nixlBind.DRAM_SEG)
    assert agent.checkRemoteMD("nobody", empty) == nixlBind.NIXL_ERR_NOT_FOUND
    assert agent.checkRemoteMD("beta", empty) == nixlBind.NIXL_SUCCESS
    assert agent.invalidateRemoteMD("nobody") == nixlBind.NIXL_ERR_NOT_FOUND
    assert agent.invalidateRemoteMD("alpha") == nixlBind.NIXL_ERR_INVALID_PARAM
    assert agent.invalidateRemoteMD("beta") == nixlBind.NIXL_SUCCESS


def test_metadata_over_sockets_and_stores_is_not_supported(pair):
    check(nixlBind.nixlNotSupportedError, "", pair.a.send_local_metadata, "127.0.0.1", 9)
    check(nixlBind.nixlNotSupportedError, "", pair.a.send_partial_agent_metadata, pair.a_reg, ip_addr="127.0.0.1")
    check(nixlBind.nixlNotSupportedError, "", pair.a.fetch_remote_metadata, "beta")
    check(nixlBind.nixlNotSupportedError, "", pair.a.invalidate_local_metadata)


def test_memory_views_are_not_supported(pair):
    remote = pair.a.get_remote_descs([(*pair.target.desc(0), "beta")], "DRAM")
    check(nixlBind.nixlNotSupportedError, "", pair.a.prep_mem_view, remote)
    check(nixlBind.nixlNotSupportedError, "", pair.a.prep_mem_view, pair.a_reg.trim(), backends=["LOCAL"])
    unknown = pair.a.get_remote_descs([(*pair.target.desc(0), "nobody")], "DRAM")
    check(nixlBind.nixlNotFoundError, "nobody", pair.a.prep_mem_view, unknown)
    pair.a.release_mem_view(7)


def test_telemetry_that_is_off():
    agent = local_agent("a", capture_telemetry=False)
    memory = Memory()
    agent.register_memory([memory.region], "DRAM")
    descs = [agent.get_xfer_descs([memory.desc(i)], "DRAM") for i in range(2)]
    handle = agent.initialize_xfer("WRITE", *descs, "a")
    agent.transfer(handle)
    check(nixlBind.nixlNoTelemetryError, "", agent.get_xfer_telemetry, handle)


@pytest.mark.parametrize("handle", [0, 0x10, (1 << 64) - 1])
def test_numbers_that_are_no_handles(pair, handle):
    agent = pair.a.agent
    for call in (
        agent.postXferReq,
        agent.getXferStatus,
        agent.getXferTelemetry,
        agent.queryXferBackend,
        agent.estimateXferCost,
        agent.releaseXferReq,
        agent.releasedDlistH,
        agent.getBackendParams,
        agent.explain,
    ):
        check(nixlBind.nixlInvalidParamError, "", call, handle)
    check(nixlBind.nixlInvalidParamError, "", agent.genNotif, "beta", b"x", [handle])


def test_backends_are_a_list(pair):
    with pytest.raises(TypeError):
        pair.a.agent.genNotif("beta", b"x", pair.a.backends["LOCAL"])


def test_a_cause_that_is_no_utf_8_is_readable(pair):
    check(nixlBind.nixlNotFoundError, "", pair.a.send_notif, b"\xff\xfe", b"x")

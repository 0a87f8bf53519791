"""The calls of nixl_agent, one by one, between two agents of a process. tests/clients plays whole clients."""

import logging

import numpy as np
import pytest
from agents import Memory, Pair, finish, local_agent, wait_until
from nixl import _bindings as nixlBind
from nixl._api import nixl_agent, nixl_agent_config, nixl_thread_sync_t, nixl_xfer_handle


def test_unknown_engines_of_the_configuration_are_skipped_with_a_warning(log_lines):
    agent = nixl_agent("a", nixl_agent_config(backends=["NOPE", "LOCAL"]))
    assert list(agent.backends) == ["LOCAL"]
    (line,) = log_lines(logging.WARNING)
    assert "'NOPE'" in line


def test_creating_engines_afterwards():
    agent = nixl_agent("a", nixl_agent_config(backends=[], num_threads=8, capture_telemetry=True))
    assert agent.backends == {}
    with pytest.raises(nixlBind.nixlNotFoundError, match="^NIXL_ERR_NOT_FOUND: .*NOPE"):
        agent.create_backend("NOPE", {"num_threads": "4"})
    assert "LOCAL" in agent.get_plugin_list()
    assert agent.create_backend("LOCAL") is None
    with pytest.raises(nixlBind.nixlInvalidParamError, match="LOCAL"):
        agent.create_backend("LOCAL", {})
    assert "DRAM_SEG" in agent.get_backend_mem_types("LOCAL")
    assert agent.get_backend_params("LOCAL") == agent.backend_options["LOCAL"]
    assert "DRAM_SEG" in agent.get_plugin_mem_types("LOCAL")
    assert isinstance(agent.get_plugin_params("LOCAL"), dict)


def test_unknown_engines_have_no_parameters(log_lines):
    agent = local_agent("a")
    assert agent.get_plugin_params("NOPE") == {}
    assert agent.get_plugin_mem_types("NOPE") == []
    assert agent.get_backend_params("NOPE") == {}
    assert agent.get_backend_mem_types("NOPE") == []
    warnings = log_lines(logging.WARNING)
    assert len(warnings) == 4 and all("'NOPE'" in line for line in warnings)


def test_all_engines_can_be_asked_for():
    agent = nixl_agent("a", None, True)
    assert "LOCAL" in agent.backends


@pytest.mark.parametrize("mode", list(nixl_thread_sync_t))
def test_every_synchronisation_mode_is_accepted(mode):
    local_agent("a", sync_mode=mode, enable_prog_thread=False)


def test_names_are_text_or_bytes_and_not_empty():
    assert local_agent(b"bytes").name == b"bytes"
    with pytest.raises(ValueError, match="non-empty"):
        nixl_agent("")
    with pytest.raises(TypeError):
        nixl_agent(None)


def test_registering_as_clients_do():
    agent = local_agent("a")
    memory = Memory()
    for arguments in (
        ([memory.region], "DRAM"),
        ([memory.region], "cpu", ["LOCAL"]),
        ([(*memory.region[:3], "cpu")], "DRAM", None),
        (agent.get_reg_descs([memory.region], "DRAM"),),
        (np.array([memory.region[:3]], np.uint64), "DRAM"),
    ):
        regions = agent.register_memory(*arguments)
        assert regions and isinstance(regions, nixlBind.nixlRegDList)
        agent.deregister_memory(regions)
    regions = agent.register_memory(reg_list=[memory.region], mem_type="DRAM", backends=None)
    agent.deregister_memory(regions)
    with pytest.raises(nixlBind.nixlNotFoundError):
        agent.deregister_memory(regions)
    with pytest.raises(KeyError, match="NOPE"):
        agent.register_memory([memory.region], "DRAM", backends=["NOPE"])


def test_registering_the_same_list_again():
    pair = Pair()
    first = pair.a.get_agent_metadata()
    pair.a.deregister_memory(pair.a_reg)
    pair.a.register_memory(pair.a_reg)
    second = pair.a.get_agent_metadata()
    assert first != second
    assert pair.b.add_remote_agent(second) == b"alpha"
    assert pair.b.check_remote_metadata("alpha", pair.a_reg.trim())


def test_metadata_and_names(pair):
    blob = pair.a.get_agent_metadata()
    assert isinstance(blob, bytes)
    name = pair.b.add_remote_agent(blob)
    assert name == b"alpha"
    assert pair.b.add_remote_agent(blob) == b"alpha"
    for given in (name, "alpha"):
        assert pair.b.check_remote_metadata(given) is True
        assert pair.b.check_remote_metadata(given, pair.a_reg.trim()) is True
        assert pair.b.check_remote_metadata(given, pair.b_reg.trim()) is False
        pair.b.make_connection(given)
    assert pair.b.check_remote_metadata("nobody") is False
    pair.b.remove_remote_agent(name)
    assert pair.b.check_remote_metadata("alpha") is False
    assert pair.b.remove_remote_agent("alpha") is None
    assert pair.b.add_remote_agent(blob) == b"alpha"


def test_partial_metadata(pair):
    other = local_agent("gamma")
    assert other.add_remote_agent(pair.a.get_partial_agent_metadata(pair.a_reg, True, ["LOCAL"])) == b"alpha"
    assert other.check_remote_metadata("alpha", pair.a_reg.trim())
    with pytest.raises(nixlBind.nixlNotFoundError):
        pair.a.get_partial_agent_metadata(pair.b_reg)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_prepared_transfer(pair, operation):
    local, remote = pair.prepared()
    expected = pair.source.bytes_of(3) if operation == "WRITE" else pair.target.bytes_of(9)
    handle = pair.a.make_prepped_xfer(operation, local, [3], remote, np.array([9], np.int32), b"req:1")
    assert handle and isinstance(handle, nixl_xfer_handle)
    with pytest.raises(nixlBind.nixlNotFoundError):
        pair.a.make_connection("nobody")
    # The cause is this call's own, not what was left by the failure before.
    with pytest.raises(nixlBind.nixlNotPostedError, match="^NIXL_ERR_NOT_POSTED: .*never posted"):
        pair.a.check_xfer_state(handle)
    assert pair.a.transfer(handle) in ("DONE", "PROC")
    finish(pair.a, handle)
    assert pair.source.bytes_of(3) == expected and pair.target.bytes_of(9) == expected
    messages = wait_until(pair.b.get_new_notifs, "a notification")
    assert messages == {"alpha": [b"req:1"]}
    telemetry = pair.a.get_xfer_telemetry(handle)
    assert (telemetry.totalBytes, telemetry.descCount) == (512, 1)
    assert telemetry.xferDuration / 1e6 >= 0 and telemetry.postDuration / 1e6 >= 0
    assert pair.a.query_xfer_backend(handle) == "LOCAL"
    duration, margin, method = pair.a.estimate_xfer_cost(handle)
    assert duration >= 0 and margin >= 0 and method == "ANALYTICAL_BACKEND"
    pair.a.release_xfer_handle(handle)
    pair.a.release_xfer_handle(handle)
    pair.a.release_dlist_handle(local)
    pair.a.release_dlist_handle(remote)


def test_prepared_lists_take_names_in_every_form(pair):
    for name in ("NIXL_INIT_AGENT", b"NIXL_INIT_AGENT", "", b""):
        local = pair.a.prep_xfer_dlist(name, pair.source.descs(), "DRAM")
        for remote_name in ("beta", b"beta"):
            remote = pair.a.prep_xfer_dlist(remote_name, pair.b_reg.trim())
            whole = pair.a.prep_xfer_dlist(name, pair.a_reg.trim())
            handle = pair.a.make_prepped_xfer("WRITE", whole, [0], remote, [0])
            pair.a.transfer(handle)
            finish(pair.a, handle)
        assert not local._released
    assert pair.source.data.tobytes() == pair.target.data.tobytes()


def test_combined_transfer_with_keywords_and_a_late_notification(pair):
    handle = pair.a.initialize_xfer(
        operation="WRITE",
        local_descs=pair.a.get_xfer_descs([pair.source.desc(0)], "DRAM"),
        remote_descs=pair.a.get_xfer_descs([pair.target.desc(1)], "DRAM"),
        remote_agent=b"beta",
        notif_msg=b"first",
    )
    pair.a.transfer(handle, b"second")
    finish(pair.a, handle)
    assert wait_until(pair.b.get_new_notifs, "a notification") == {"alpha": [b"second"]}
    assert pair.target.bytes_of(1) == pair.source.bytes_of(0)
    pair.a.transfer(handle)
    finish(pair.a, handle)
    assert wait_until(pair.b.get_new_notifs, "a notification") == {"alpha": [b"second"]}


def test_loop_back_to_the_own_name(pair):
    handle = pair.a.initialize_xfer(
        "WRITE",
        pair.a.get_xfer_descs([pair.source.desc(0)], "DRAM"),
        pair.a.get_xfer_descs([pair.source.desc(1)], "DRAM"),
        "alpha",
    )
    pair.a.transfer(handle)
    finish(pair.a, handle)
    assert pair.source.bytes_of(1) == pair.source.bytes_of(0)


def test_notifications_as_clients_use_them(pair):
    large = bytes(range(256)) * 64
    for message in (b"", b"HB:req1,req2", "text", large):
        pair.a.send_notif("beta", notif_msg=message)
    pair.a.send_notif(b"beta", b"by backend", "LOCAL")
    expected = [b"", b"HB:req1,req2", b"text", large, b"by backend"]
    wait_until(lambda: len(pair.b.update_notifs().get("alpha", [])) == 5, "five notifications")
    assert pair.b.notifs == {"alpha": expected}
    assert pair.b.update_notifs() is pair.b.notifs
    pair.b.notifs["alpha"].remove(b"text")
    assert pair.b.update_notifs()["alpha"] == [b"", b"HB:req1,req2", large, b"by backend"]
    assert pair.b.get_new_notifs(backends=["LOCAL"]) == {}
    with pytest.raises(KeyError, match="NOPE"):
        pair.a.send_notif("beta", b"x", "NOPE")
    with pytest.raises(nixlBind.nixlNotFoundError, match="nobody"):
        pair.a.send_notif("nobody", b"x")


def test_looking_for_a_message(pair):
    for message in (b"", b"xstr", b"str"):
        pair.a.send_notif("beta", message)
    wait_until(lambda: len(pair.b.update_notifs().get("alpha", [])) == 3, "three notifications")
    done = pair.b.check_remote_xfer_done
    assert done("alpha", b"none") is False
    assert done(b"alpha", b"tr", tag_is_prefix=False) is True
    assert pair.b.notifs == {"alpha": [b"", b"str"]}
    assert done("alpha", "st") is True
    assert done("alpha", b"", []) is True
    assert pair.b.notifs == {"alpha": []}
    assert done("alpha", b"") is False
    assert done("nobody", b"") is False


def test_merging_notification_maps_leaves_the_given_one_alone(pair):
    pair.a.send_notif("beta", b"new")
    given = {"alpha": [b"old"], b"\xff": ["text"], "empty": []}
    merged = wait_until(
        lambda: (lambda found: found if b"new" in found["alpha"] else None)(pair.b.agent.getNotifs(given)), "a message"
    )
    assert merged == {"alpha": [b"old", b"new"], "\udcff": [b"text"], "empty": []}
    assert given == {"alpha": [b"old"], b"\xff": ["text"], "empty": []}
    pair.a.send_notif("beta", b"kept")
    with pytest.raises(TypeError, match="neither str nor bytes"):
        pair.b.agent.getNotifs({"alpha": [5]})
    assert wait_until(pair.b.get_new_notifs, "a message") == {"alpha": [b"kept"]}


def test_names_that_are_no_utf_8_travel():
    a, b = local_agent(b"\xff\xfe"), local_agent("b")
    b.add_remote_agent(a.get_agent_metadata())
    name = a.add_remote_agent(b.get_agent_metadata())
    a.send_notif(name, b"hello")
    assert wait_until(b.get_new_notifs, "a message") == {"\udcff\udcfe": [b"hello"]}
    assert b.check_remote_metadata("\udcff\udcfe") and b.check_remote_metadata(b"\xff\xfe")
    b.send_notif("\udcff\udcfe", b"back")
    assert wait_until(a.get_new_notifs, "a message") == {"b": [b"back"]}


def test_c19_an_address_again_with_a_larger_size():
    a, b = local_agent("a"), local_agent("b")
    source, target = Memory(128, seed=1), Memory(128, seed=2)
    small = b.register_memory([(target.addr, 16 << 10, 0, "")], "DRAM")
    large = b.register_memory([(target.addr, 64 << 10, 0, "")], "DRAM")
    a.register_memory([source.region], "DRAM")
    a.add_remote_agent(b.get_agent_metadata())
    handle = a.initialize_xfer(
        "WRITE",
        a.get_xfer_descs([(source.addr, 64 << 10, 0)], "DRAM"),
        a.get_xfer_descs([(target.addr, 64 << 10, 0)], "DRAM"),
        "b",
    )
    a.transfer(handle)
    finish(a, handle)
    assert target.data.tobytes() == source.data.tobytes()
    a.release_xfer_handle(handle)
    b.deregister_memory(small)
    b.deregister_memory(large)


def test_explaining_a_path(pair):
    local, remote = pair.prepared()
    handle = pair.a.make_prepped_xfer("WRITE", local, [0, 1, 5], remote, [0, 1, 9])
    explanation = pair.a.explain(handle)
    assert explanation.backend == "LOCAL"
    assert explanation.path and explanation.reason
    assert (explanation.blocks, explanation.bytes) == (2, 3 * 512)
    chosen = [option for option in explanation.options if option.chosen]
    assert [(option.backend, option.path) for option in chosen] == [("LOCAL", explanation.path)]
    assert explanation.path in str(explanation)
    assert explanation.path in repr(explanation)
    assert chosen[0].path in repr(chosen[0])
    pair.a.release_xfer_handle(handle)
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.explain(handle)


def test_merging_can_be_turned_off(pair):
    local, remote = pair.prepared()
    handle = pair.a.make_prepped_xfer("WRITE", local, [0, 1], remote, [0, 1], skip_desc_merge=True)
    assert pair.a.explain(handle).blocks == 2


def test_handles_describe_and_release_themselves(pair):
    local, remote = pair.prepared()
    with pair.a.make_prepped_xfer("WRITE", local, [0], remote, [0]) as handle:
        assert repr(handle) == f"nixl_xfer_handle(0x{handle._handle:x}, released=False)"
    assert repr(handle).endswith("released=True)")
    handle.release()
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.transfer(handle)
    local.release()
    local.release()
    assert repr(local).endswith("released=True)")
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.make_prepped_xfer("WRITE", local, [0], remote, [0])

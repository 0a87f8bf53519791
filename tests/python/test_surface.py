"""The names, arguments and defaults that programs for NIXL rely on."""

import inspect
import re

import nixl
import pytest
from nixl import _api, _bindings, _utils

ENUMERATIONS = {
    "nixl_mem_t": {"DRAM_SEG": 0, "VRAM_SEG": 1, "BLK_SEG": 2, "OBJ_SEG": 3, "FILE_SEG": 4},
    "nixl_xfer_op_t": {"NIXL_READ": 0, "NIXL_WRITE": 1},
    "nixl_status_t": {
        "NIXL_IN_PROG": 1,
        "NIXL_SUCCESS": 0,
        "NIXL_ERR_NOT_POSTED": -1,
        "NIXL_ERR_INVALID_PARAM": -2,
        "NIXL_ERR_BACKEND": -3,
        "NIXL_ERR_NOT_FOUND": -4,
        "NIXL_ERR_MISMATCH": -5,
        "NIXL_ERR_NOT_ALLOWED": -6,
        "NIXL_ERR_REPOST_ACTIVE": -7,
        "NIXL_ERR_UNKNOWN": -8,
        "NIXL_ERR_NOT_SUPPORTED": -9,
        "NIXL_ERR_REMOTE_DISCONNECT": -10,
        "NIXL_ERR_CANCELED": -11,
        "NIXL_ERR_NO_TELEMETRY": -12,
    },
    "nixl_thread_sync_t": {
        "NIXL_THREAD_SYNC_NONE": 0,
        "NIXL_THREAD_SYNC_STRICT": 1,
        "NIXL_THREAD_SYNC_RW": 2,
        "NIXL_THREAD_SYNC_DEFAULT": 0,
    },
    "nixl_cost_t": {"NIXL_COST_ANALYTICAL_BACKEND": 0},
}

EXCEPTIONS = """nixlNotPostedError nixlInvalidParamError nixlBackendError nixlNotFoundError nixlMismatchError
    nixlNotAllowedError nixlRepostActiveError nixlUnknownError nixlNotSupportedError nixlRemoteDisconnectError
    nixlCancelledError nixlNoTelemetryError""".split()

# Arguments of the methods of nixlAgent, one line per overload.
AGENT_CALLS = """
    getAvailPlugins()
    getPluginParams(name)
    getBackendParams(backend)
    createBackend(name, params)
    registerMem(descs, backends=[])
    deregisterMem(descs, backends=[])
    queryMem(descs, backend)
    makeConnection(remote_agent, backends)
    prepXferDlist(agent_name, descs, backend=[])
    prepXferDlist(descs, backend=[])
    prepXferDlist(agent_name, mem_type, descs, backend=[])
    makeXferReq(operation, local_side, local_indices, remote_side, remote_indices, \
        notif_msg='', backend=[], skip_desc_merg=False)
    createXferReq(operation, local_descs, remote_descs, remote_agent, notif_msg='', backend=[])
    estimateXferCost(req_handle)
    postXferReq(reqh, notif_msg='', timeout=None)
    getXferStatus(reqh)
    getXferTelemetry(reqh)
    queryXferBackend(reqh)
    releaseXferReq(reqh)
    releasedDlistH(dlist)
    prepMemView(dlist, backends=[])
    prepMemView(dlist, backends=[])
    releaseMemView(mvh)
    getNotifs(notif_map, backends=[])
    genNotif(remote_agent, msg, backends=[])
    getLocalMD()
    getLocalPartialMD(descs, inc_conn_info=False, backends=[])
    loadRemoteMD(remote_metadata)
    invalidateRemoteMD(remote_agent)
    checkRemoteMD(remote_agent, descs)
    peerEvents()
    failedNotifs()
    sendLocalMD(ip_addr='', port=0)
    sendLocalPartialMD(descs, inc_conn_info=False, backends=[], ip_addr='', port=0, label='')
    fetchRemoteMD(remote_agent, ip_addr='', port=0, label='')
    invalidateLocalMD(ip_addr='', port=0)
    explain(reqh)
    wait(reqh, timeout=None)
    waitAny(reqhs, timeout=None)
    waitAll(reqhs, timeout=None)
    waitNotifs(timeout=None, backends=[])
    cancelXferReq(reqh)
    isQuiet(reqh)
    drain(timeout)
    watch()
"""

LIST_CALLS = {
    "nixlXferDList": """descCount isEmpty getType clear addDesc append remDesc index print __getitem__ __setitem__
        __eq__ __len__ __iter__ __getstate__ __setstate__""",
    "nixlRegDList": """descCount isEmpty getType clear addDesc append remDesc index print __getitem__ __setitem__
        __eq__ __len__ __iter__ __getstate__ __setstate__ trim""",
    "nixlRemoteDList": """descCount isEmpty getType clear addDesc append remDesc print __getitem__ __setitem__ __eq__
        __len__ __iter__""",
}

# Methods of nixl_agent. An empty tuple stands where NIXL has an empty list or dict.
API_CALLS = """
    __init__(agent_name, nixl_conf=None, instantiate_all=False)
    get_plugin_list()
    get_plugin_mem_types(backend)
    get_plugin_params(backend)
    get_backend_mem_types(backend)
    get_backend_params(backend)
    create_backend(backend, initParams=None)
    register_memory(reg_list, mem_type=None, backends=())
    deregister_memory(dereg_list, backends=())
    query_memory(reg_list, backend, mem_type=None)
    make_connection(remote_agent, backends=())
    prep_xfer_dlist(agent_name, xfer_list, mem_type=None, backends=())
    make_prepped_xfer(operation, local_xfer_side, local_indices, remote_xfer_side, \
        remote_indices, notif_msg=b'', backends=(), skip_desc_merge=False)
    initialize_xfer(operation, local_descs, remote_descs, remote_agent, notif_msg=b'', backends=())
    transfer(handle, notif_msg=b'', timeout=None)
    check_xfer_state(handle)
    get_xfer_telemetry(handle)
    query_xfer_backend(handle)
    explain(handle)
    estimate_xfer_cost(req_handle)
    release_xfer_handle(handle)
    release_dlist_handle(handle)
    prep_mem_view(dlist, *, backends=None)
    release_mem_view(mvh)
    get_new_notifs(backends=())
    update_notifs(backends=())
    check_remote_xfer_done(remote_agent_name, lookup_tag, backends=(), tag_is_prefix=True)
    send_notif(remote_agent_name, notif_msg, backend=None)
    get_agent_metadata()
    get_partial_agent_metadata(descs, inc_conn_info=False, backends=())
    add_remote_agent(metadata)
    remove_remote_agent(agent)
    check_remote_metadata(agent, descs=None)
    peer_events()
    failed_notifs()
    send_local_metadata(ip_addr='', port=8888)
    send_partial_agent_metadata(descs, inc_conn_info=False, backends=(), ip_addr='', port=8888, label='')
    fetch_remote_metadata(remote_agent, ip_addr='', port=8888, label='')
    invalidate_local_metadata(ip_addr='', port=8888)
    get_xfer_descs(descs, mem_type=None, *, sorted=False)
    get_reg_descs(descs, mem_type=None, *, sorted=False)
    get_remote_descs(descs, mem_type=None)
    get_serialized_descs(descs)
    deserialize_descs(serialized_descs)
    cancel(handle)
    is_quiet(handle)
    wait_quiet(handle, timeout=None)
    wait(handle, timeout=None)
    wait_any(handles, timeout=None)
    wait_all(handles, timeout=None)
    wait_notif(timeout=None, backends=())
    fileno()
    clear_activity()
    async_transfer(handle, notif_msg=b'')
    notifications(backends=())
"""


def table(text):
    """The lines of a table, sorted; an entry may go on in the next line."""
    return sorted(" ".join(line.split()) for line in text.strip().split("\n"))


def binding_signatures(class_):
    """`name(argument, argument=default)` of every public method, from the docstrings of pybind11."""
    found = []
    for name, value in vars(class_).items():
        if name.startswith("_"):
            continue
        for match in re.finditer(rf"^(?:\d+\. )?{name}\(self: [\w.]+(?:, (.*))?\) -> ", value.__doc__, re.MULTILINE):
            arguments = re.split(r", (?=\w+: )", match[1] or "")
            plain = [re.sub(r": .*?(?= = |$)", "", argument).replace(" = ", "=") for argument in arguments]
            found.append(f"{name}({', '.join(plain)})")
    return found


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_enumerations_and_their_members_in_the_module(name):
    enumeration = getattr(_bindings, name)
    assert {member: int(value) for member, value in enumeration.__members__.items()} == ENUMERATIONS[name]
    for member in ENUMERATIONS[name]:
        assert getattr(_bindings, member) == getattr(enumeration, member)


def test_statuses_compare_with_numbers_as_in_nixl():
    assert _bindings.NIXL_IN_PROG == 1
    assert repr(_bindings.nixl_status_t(-10)) == "<nixl_status_t.NIXL_ERR_REMOTE_DISCONNECT: -10>"


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_derive_from_exception_alone(name):
    assert getattr(_bindings, name).__bases__ == (Exception,)
    assert getattr(_bindings, name).__module__ == "nixl._bindings"


def test_methods_of_the_bound_agent():
    assert sorted(binding_signatures(_bindings.nixlAgent)) == table(AGENT_CALLS)


@pytest.mark.parametrize("name", LIST_CALLS)
def test_methods_of_the_bound_lists(name):
    for method in LIST_CALLS[name].split():
        assert callable(getattr(getattr(_bindings, name), method))


def test_what_a_list_of_remote_descriptors_lacks_as_in_nixl():
    for method in ("index", "trim", "__setstate__"):
        assert not hasattr(_bindings.nixlRemoteDList, method)


def test_constants_of_the_bindings():
    assert _bindings.DEFAULT_COMM_PORT == 8888
    assert _bindings.NIXL_INIT_AGENT == ""
    assert _bindings.HAVE_UCX_GPU_DEVICE_API is False


def test_methods_of_the_agent():
    found = []
    for name, value in vars(_api.nixl_agent).items():
        if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
            parameters = list(inspect.signature(value).parameters.values())[1:]
            plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
            found.append(name + str(inspect.Signature(plain)))
    assert sorted(found) == table(API_CALLS)


def test_arguments_and_attributes_of_the_configuration():
    config = _api.nixl_agent_config()
    assert vars(config) == {
        "backends": ["UCX"],
        "enable_pthread": True,
        "enable_listen": False,
        "port": 8888,
        "capture_telemetry": False,
        "num_threads": 0,
        "sync_mode": None,
    }
    assert list(inspect.signature(_api.nixl_agent_config).parameters) == [
        "enable_prog_thread",
        "enable_listen_thread",
        "listen_port",
        "capture_telemetry",
        "num_threads",
        "backends",
        "sync_mode",
    ]


def test_names_of_the_package():
    expected = """DEFAULT_COMM_PORT nixl_agent nixl_agent_config nixl_backend_handle nixl_prepped_dlist_handle
        nixl_thread_sync_t nixl_xfer_handle""".split()
    for name in expected:
        assert name in nixl.__all__
        assert getattr(nixl, name) is getattr(_api, name)
    assert nixl.nixl_backend_handle is int
    assert _api.nixlBind is _bindings
    assert tuple(map(int, nixl.__version__.split("."))) >= (1, 5, 0)


def test_synchronisation_modes_of_the_interface():
    assert len(list(_api.nixl_thread_sync_t)) == 3
    assert _api.nixl_thread_sync_t.NIXL_THREAD_SYNC_DEFAULT is _api.nixl_thread_sync_t.NIXL_THREAD_SYNC_NONE
    for wrong in (1, _bindings.NIXL_THREAD_SYNC_RW):
        with pytest.raises(TypeError, match="must be a nixl_thread_sync_t"):
            _api.nixl_agent_config(sync_mode=wrong)


def test_bound_configuration_takes_up_to_nine_arguments_and_attributes():
    assert _bindings.nixlAgentConfig().lthrDelay == 100000
    config = _bindings.nixlAgentConfig(True, True, 7777, _bindings.NIXL_THREAD_SYNC_RW, 3, 4, 5, True)
    assert (config.useProgThread, config.useListenThread, config.listenPort) == (True, True, 7777)
    assert (config.syncMode, config.pthrDelay, config.lthrDelay) == (_bindings.NIXL_THREAD_SYNC_RW, 4, 5)
    assert config.captureTelemetry is True
    assert config.etcdWatchTimeout.total_seconds() == 5
    config.listenPort = 1
    config.syncMode = _bindings.NIXL_THREAD_SYNC_STRICT
    assert (config.listenPort, config.syncMode) == (1, _bindings.NIXL_THREAD_SYNC_STRICT)
    with pytest.raises(TypeError):
        _bindings.nixlAgentConfig(True, True, 70000)


def test_names_of_the_utilities():
    for name in ("malloc_passthru", "free_passthru", "ba_buf", "verify_transfer"):
        assert callable(getattr(_utils, name))

"""The interface that programs use: `nixl_agent` and what it takes and gives.

Where an argument is an agent's name or a message, str and bytes are accepted. Errors of the library are raised as the
exceptions of `nixl._bindings`, whose text begins with the name of the status and goes on with the cause.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from . import _bindings as nixlBind
from . import _descs
from ._config import (
    DEFAULT_COMM_PORT,
    bindings_config,
    nixl_agent_config,
    nixl_thread_sync_t,
    thread_parameters,
)
from ._handles import nixl_prepped_dlist_handle, nixl_xfer_handle
from .logging import get_logger

__all__ = [
    "DEFAULT_COMM_PORT",
    "nixlBind",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_backend_handle",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
]

logger = get_logger("_api")

nixl_backend_handle = int

_STATES = {nixlBind.NIXL_SUCCESS: "DONE", nixlBind.NIXL_IN_PROG: "PROC"}
_COST_METHODS = {int(nixlBind.NIXL_COST_ANALYTICAL_BACKEND): "ANALYTICAL_BACKEND"}
_INIT_AGENT = "NIXL_INIT_AGENT"


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


def _to_str(text: str | bytes) -> str:
    return text if isinstance(text, str) else bytes(text).decode("utf-8", "surrogateescape")


_living: weakref.WeakValueDictionary[int, nixl_agent] = weakref.WeakValueDictionary()


@atexit.register
def _drain() -> None:
    """Arrays go in any order when the interpreter ends. No transfer uses them by then."""
    patience = 1.0
    for reference in _living.valuerefs():
        agent = reference()
        if agent is not None and not agent._inherited():
            # A program may have taken the agent away, or put something else in its place.
            with contextlib.suppress(Exception):
                agent.agent.drain(patience)


class nixl_agent:
    """One participant of transfers: registers memory, learns about peers, moves blocks between them.

    agent_name: how peers call it; not empty.
    nixl_conf: see nixl_agent_config; its defaults if None.
    instantiate_all: create every engine that exists here rather than those of the configuration; one that cannot be
        created is skipped with a warning.

    Attributes, which programs may read and replace: agent (the nixlBind.nixlAgent), name, notifs (messages taken by
    update_notifs), backends (name to handle), backend_mems, backend_options, plugin_list, plugin_b_options,
    plugin_mem_types, nixl_mems, nixl_ops.

    Every method may be called from any thread.
    """

    def __init__(
        self, agent_name: str | bytes, nixl_conf: nixl_agent_config | None = None, instantiate_all: bool = False
    ) -> None:
        conf = nixl_conf if nixl_conf is not None else nixl_agent_config()
        self._leaked_xfer_handles: list[int] = []
        self._notifs_lock = threading.Lock()
        self._watch: nixlBind.nixlWatch | None = None
        self._watch_lock = threading.Lock()
        self._loops: dict[Any, Any] = {}  # of event loops with tasks that wait; see _async
        self.name = agent_name
        self.notifs: dict[str, list[bytes]] = {}
        self.backends: dict[str, nixl_backend_handle] = {}
        self.backend_mems: dict[str, list[str]] = {}
        self.backend_options: dict[str, dict[str, str]] = {}
        self.plugin_b_options: dict[str, dict[str, str]] = {}
        self.plugin_mem_types: dict[str, list[str]] = {}
        self.nixl_mems = dict(_descs.MEMORY_TYPES)
        self.nixl_ops = {"WRITE": nixlBind.NIXL_WRITE, "READ": nixlBind.NIXL_READ}
        self._process = os.getpid()
        self.agent = nixlBind.nixlAgent(agent_name, bindings_config(conf))
        _living[id(self)] = self
        self.plugin_list: list[str] = self.agent.getAvailPlugins()
        if not self.plugin_list:
            raise RuntimeError("no engines exist: none is built in and the plugin folders hold none")
        if instantiate_all:
            self._create_all(conf.num_threads)
        else:
            self._create_configured(conf.backends, conf.num_threads)

    def _create_configured(self, names: Sequence[str], num_threads: int) -> None:
        for name in names:
            if name in self.plugin_list:
                self.create_backend(name, self._thread_parameters(name, num_threads))
            else:
                logger.warning(
                    "Skipping backend '%s': there is no such plugin; available: %s", name, ", ".join(self.plugin_list)
                )

    def _create_all(self, num_threads: int) -> None:
        for name in self.plugin_list:
            try:
                self.create_backend(name, self._thread_parameters(name, num_threads))
            except Exception as error:
                logger.warning("Skipping backend '%s': %s", name, error)

    def _thread_parameters(self, name: str, num_threads: int) -> dict[str, str]:
        return thread_parameters(name, self.get_plugin_params(name), num_threads) if num_threads > 0 else {}

    def __del__(self) -> None:
        # Without the attribute the constructor failed, or a program took the agent away.
        agent = self.__dict__.get("agent")
        if agent is None or self._inherited():
            return
        for handle in self.__dict__.get("_leaked_xfer_handles", ()):
            # The end of the agent ends the transfer in any case.
            with contextlib.suppress(Exception):
                agent.releaseXferReq(handle)

    def _inherited(self, getpid: Callable[[], int] = os.getpid) -> bool:
        """Whether this is a forked child, where the agent and its handles are the parent's."""
        return self._process != getpid()  # a module's names are gone before its objects at the very end

    def __repr__(self) -> str:
        return f"<nixl_agent {self.name!r} backends={list(self.backends)}>"

    # ---- Engines ----

    def get_plugin_list(self) -> list[str]:
        """Names of the engines that exist: built in, or found as files."""
        return self.plugin_list

    def _load_plugin_params(self, plugin: str) -> bool:
        """Asks the library about an engine, once. False, with a warning: unknown, or it cannot be loaded."""
        if plugin in self.plugin_b_options:
            return True
        try:
            params, mems = self.agent.getPluginParams(plugin)
        except Exception as error:
            logger.warning("Plugin '%s' is not available: %s", plugin, error)
            return False
        self.plugin_b_options[plugin] = params
        self.plugin_mem_types[plugin] = mems
        return True

    def get_plugin_mem_types(self, backend: str) -> list[str]:
        """Kinds of memory that an engine takes; [] with a warning if it is unknown."""
        return self.plugin_mem_types[backend] if self._load_plugin_params(backend) else []

    def get_plugin_params(self, backend: str) -> dict[str, str]:
        """An engine's parameters with their defaults; {} with a warning if it is unknown."""
        return self.plugin_b_options[backend] if self._load_plugin_params(backend) else {}

    def get_backend_mem_types(self, backend: str) -> list[str]:
        """Kinds of memory that a created engine takes; [] with a warning if there is none."""
        if backend in self.backend_mems:
            return self.backend_mems[backend]
        logger.warning("Backend '%s' was not created", backend)
        return []

    def get_backend_params(self, backend: str) -> dict[str, str]:
        """The parameters that an engine was created with; {} with a warning if there is none."""
        if backend in self.backend_options:
            return self.backend_options[backend]
        logger.warning("Backend '%s' was not created", backend)
        return {}

    def create_backend(self, backend: str, initParams: Mapping[str, str] | None = None) -> None:
        """Creates an engine. The order of creation is the order of preference."""
        handle = self.agent.createBackend(backend, dict(initParams or {}))
        params, mems = self.agent.getBackendParams(handle)
        self.backends[backend] = handle
        self.backend_options[backend] = params
        self.backend_mems[backend] = mems

    def _handles(self, backends: Sequence[str] | None) -> list[nixl_backend_handle]:
        return [self.backends[name] for name in backends or ()]

    # ---- Memory ----

    def register_memory(
        self, reg_list: Any, mem_type: str | None = None, backends: Sequence[str] | None = ()
    ) -> nixlBind.nixlRegDList:
        """Registers what get_reg_descs takes; the list that deregister_memory wants."""
        descs = _descs.reg_list(reg_list, mem_type)
        self.agent.registerMem(descs, self._handles(backends))
        return descs

    def deregister_memory(self, dereg_list: nixlBind.nixlRegDList, backends: Sequence[str] | None = ()) -> None:
        """Ends registrations. After it no transfer touches the memory."""
        self.agent.deregisterMem(dereg_list, self._handles(backends))

    def query_memory(self, reg_list: Any, backend: str, mem_type: str | None = None) -> list[dict[str, str] | None]:
        """What an engine knows about files or objects: one answer per descriptor, None where there is nothing."""
        if backend not in self.backends:
            raise ValueError(f"backend '{backend}' was not created; there are: {', '.join(self.backends) or 'none'}")
        return self.agent.queryMem(_descs.reg_list(reg_list, mem_type), self.backends[backend])

    # ---- Transfers ----

    def make_connection(self, remote_agent: str | bytes, backends: Sequence[str] | None = ()) -> None:
        """Connects to a loaded peer now rather than at the first transfer."""
        self.agent.makeConnection(remote_agent, self._handles(backends))

    def prep_xfer_dlist(
        self,
        agent_name: str | bytes,
        xfer_list: Any,
        mem_type: str | None = None,
        backends: Sequence[str] | None = (),
    ) -> nixl_prepped_dlist_handle:
        """Resolves a list of blocks once, for many requests.

        agent_name: "" or "NIXL_INIT_AGENT" for this agent's memory as the local side; a loaded peer, or this agent's
            own name, for the remote side.
        xfer_list: what get_xfer_descs takes, or an Nx5 array with rows (addr, len, dev_id, stride, count), whose
            blocks are counted across the rows.
        """
        if _to_str(agent_name) == _INIT_AGENT:
            agent_name = nixlBind.NIXL_INIT_AGENT
        handles = self._handles(backends)
        shape = _descs.array_shape(xfer_list)
        if shape is not None and len(shape) == 2 and shape[1] == 5:
            if mem_type is None:
                raise ValueError("an Nx5 array of descriptors needs a mem_type")
            value = self.agent.prepXferDlist(agent_name, self.nixl_mems[mem_type], xfer_list, handles)
        else:
            value = self.agent.prepXferDlist(agent_name, _descs.xfer_list(xfer_list, mem_type), handles)
        return nixl_prepped_dlist_handle(self, value)

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: nixl_prepped_dlist_handle,
        local_indices: Any,
        remote_xfer_side: nixl_prepped_dlist_handle,
        remote_indices: Any,
        notif_msg: str | bytes = b"",
        backends: Sequence[str] | None = (),
        skip_desc_merge: bool = False,
    ) -> nixl_xfer_handle:
        """A request that pairs local_indices[i] with remote_indices[i]: lists, or arrays of any integer type.

        A contiguous int32 array is used without a copy. operation: "WRITE" or "READ".
        """
        value = self.agent.makeXferReq(
            self.nixl_ops[operation],
            local_xfer_side._handle,
            local_indices,
            remote_xfer_side._handle,
            remote_indices,
            notif_msg,
            self._handles(backends),
            skip_desc_merge,
        )
        return nixl_xfer_handle(self, value)

    def initialize_xfer(
        self,
        operation: str,
        local_descs: nixlBind.nixlXferDList,
        remote_descs: nixlBind.nixlXferDList,
        remote_agent: str | bytes,
        notif_msg: str | bytes = b"",
        backends: Sequence[str] | None = (),
    ) -> nixl_xfer_handle:
        """A request from two lists at once. operation: "WRITE" or "READ"."""
        value = self.agent.createXferReq(
            self.nixl_ops[operation], local_descs, remote_descs, remote_agent, notif_msg, self._handles(backends)
        )
        return nixl_xfer_handle(self, value)

    def transfer(self, handle: nixl_xfer_handle, notif_msg: str | bytes = b"", timeout: float | None = None) -> str:
        """Starts a request: "DONE" or "PROC"; errors are raised. A message replaces the one that the request has.

        A run that has not ended after `timeout` seconds is cancelled, and then raises nixlCancelledError as soon as
        local memory is quiet. None: as NIXL_TRANSFER_TIMEOUT_MS says; 0: no limit.
        """
        return _STATES.get(self.agent.postXferReq(handle._handle, notif_msg, timeout), "ERR")

    def cancel(self, handle: nixl_xfer_handle) -> bool:
        """Ends a run in progress. True: local memory is quiet, no byte of it is read or written any more. False: not
        yet; wait_quiet() waits for it. check_xfer_state() then raises nixlCancelledError, unless the run had ended
        otherwise before. The request stays and can be posted again. Never blocks.
        """
        return self.agent.cancelXferReq(handle._handle)

    def is_quiet(self, handle: nixl_xfer_handle) -> bool:
        """Whether no byte of local memory is read or written by a request: it was never posted, or its run has ended.

        Does no work; check_xfer_state() and waiting do.
        """
        return self.agent.isQuiet(handle._handle)

    def wait_quiet(self, handle: nixl_xfer_handle, timeout: float | None = None) -> bool:
        """Waits until is_quiet(); False after `timeout` seconds. What the run came to is for check_xfer_state()."""
        return self.agent.waitAny([handle._handle], timeout) is not None

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        """ "DONE" or "PROC"; errors are raised.

        May do a part of the work first, if nobody else does: some ten to a hundred microseconds (docs/threading.md).
        """
        return _STATES.get(self.agent.getXferStatus(handle._handle), "ERR")

    def get_xfer_telemetry(self, handle: nixl_xfer_handle) -> nixlBind.nixlXferTelemetry:
        """What a finished transfer took; needs capture_telemetry."""
        return self.agent.getXferTelemetry(handle._handle)

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        """Name of the engine that carries a request."""
        backend = self.agent.queryXferBackend(handle._handle)
        for name, known in self.backends.items():
            if known == backend:
                return name
        raise KeyError(f"the request's backend 0x{backend:x} is none of {list(self.backends)}")

    def explain(self, handle: nixl_xfer_handle) -> nixlBind.nixlPathExplanation:
        """Which path a request takes, why, and why not each other one. str() of it is for people."""
        return self.agent.explain(handle._handle)

    def estimate_xfer_cost(self, req_handle: nixl_xfer_handle) -> tuple[int, int, str]:
        """(microseconds, margin of error in microseconds, how it was found)."""
        duration, margin, method = self.agent.estimateXferCost(req_handle._handle)
        return duration, margin, _COST_METHODS.get(method, "UNKNOWN")

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        """Ends a request. A running one is cancelled; while it cannot be, nixlRepostActiveError is raised."""
        handle.release()

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        """Ends a prepared list; requests made from it live on."""
        handle.release()

    def prep_mem_view(
        self,
        dlist: nixlBind.nixlXferDList | nixlBind.nixlRemoteDList,
        *,
        backends: Sequence[str] | None = None,
    ) -> int:
        """A view of memory for device code."""
        return self.agent.prepMemView(dlist, self._handles(backends))

    def release_mem_view(self, mvh: int) -> None:
        """Ends a view."""
        self.agent.releaseMemView(mvh)

    # ---- Notifications ----

    def get_new_notifs(self, backends: Sequence[str] | None = ()) -> dict[str, list[bytes]]:
        """The messages that arrived since the last call, by sender, oldest first."""
        return self.agent.getNotifs({}, self._handles(backends))

    def update_notifs(self, backends: Sequence[str] | None = ()) -> dict[str, list[bytes]]:
        """Appends new messages to the attribute notifs, which stays the program's to empty, and returns it."""
        # Taken under the lock too, so that messages of one sender stay in their order.
        with self._notifs_lock:
            for name, messages in self.get_new_notifs(backends).items():
                self.notifs.setdefault(name, []).extend(messages)
        return self.notifs

    def check_remote_xfer_done(
        self,
        remote_agent_name: str | bytes,
        lookup_tag: str | bytes,
        backends: Sequence[str] | None = (),
        tag_is_prefix: bool = True,
    ) -> bool:
        """Whether a message of an agent begins with a tag, or contains it if not tag_is_prefix.

        The first such message is taken out of the attribute notifs.
        """
        tag = _to_bytes(lookup_tag)
        messages = self.update_notifs(backends).get(_to_str(remote_agent_name), [])
        with self._notifs_lock:
            for position, message in enumerate(messages):
                if message.startswith(tag) if tag_is_prefix else tag in message:
                    del messages[position]
                    return True
        return False

    def send_notif(self, remote_agent_name: str | bytes, notif_msg: str | bytes, backend: str | None = None) -> None:
        """Sends a message, empty or not, to a loaded peer or to this agent itself."""
        self.agent.genNotif(remote_agent_name, notif_msg, self._handles([backend] if backend else None))

    # ---- Waiting: a thread that waits sleeps, lets others run, and hears Ctrl-C (docs/waiting.md) ----

    def wait(self, handle: nixl_xfer_handle, timeout: float | None = None) -> str:
        """What check_xfer_state says once the transfer has ended, or after that many seconds.

        May do a part of the copying, as check_xfer_state does.
        """
        return _STATES.get(self.agent.wait(handle._handle, timeout), "ERR")

    def wait_any(self, handles: Sequence[nixl_xfer_handle], timeout: float | None = None) -> nixl_xfer_handle | None:
        """The first of the requests that is not in progress, as soon as there is one; None after that many seconds.

        check_xfer_state says how it ended, or that it was never posted.
        """
        position = self.agent.waitAny([handle._handle for handle in handles], timeout)
        return None if position is None else handles[position]

    def wait_all(self, handles: Sequence[nixl_xfer_handle], timeout: float | None = None) -> bool:
        """Whether all of the transfers are done; False after that many seconds. Once all have ended, the error of the
        first that failed is raised.
        """
        return self.agent.waitAll([handle._handle for handle in handles], timeout) == nixlBind.NIXL_SUCCESS

    def wait_notif(self, timeout: float | None = None, backends: Sequence[str] | None = ()) -> dict[str, list[bytes]]:
        """What get_new_notifs gives, as soon as there is something; empty after that many seconds."""
        return self.agent.waitNotifs(timeout, self._handles(backends))

    def fileno(self) -> int:
        """A descriptor for select, poll and the like: readable when something has happened since the last
        clear_activity(), a transfer ended or a message come. The agent closes it.
        """
        with self._watch_lock:
            if self._watch is None:
                self._watch = self.agent.watch()
            return self._watch.fileno()

    def clear_activity(self) -> None:
        """The descriptor of fileno() is not readable any more until the next event. Look after it, not before."""
        with self._watch_lock:
            if self._watch is not None:
                self._watch.clear()

    async def async_transfer(self, handle: nixl_xfer_handle, notif_msg: str | bytes = b"") -> str:
        """Starts a request and returns "DONE" when it is; errors are raised. In any event loop with add_reader.

        If the task is cancelled, so is the transfer; the task ends once local memory is quiet.
        """
        from . import _async

        return await _async.transfer(self, handle, notif_msg)

    def notifications(self, backends: Sequence[str] | None = ()) -> AsyncIterator[tuple[str, bytes]]:
        """For `async for`: messages as (sender, message), for ever.

        Takes them out of the attribute notifs, where it puts those that come together, so that none is lost when the
        loop is left.
        """
        from . import _async

        return _async.Notifications(self, backends)

    def _next_notif(self, backends: Sequence[str] | None) -> tuple[str, bytes] | None:
        with self._notifs_lock:
            for name, messages in self.wait_notif(0, backends).items():
                self.notifs.setdefault(name, []).extend(messages)
            for name, messages in self.notifs.items():
                if messages:
                    self.notifs[name] = self.notifs.pop(name)  # the others come first next time
                    return name, messages.pop(0)
        return None

    # ---- Metadata ----

    def get_agent_metadata(self) -> bytes:
        """Everything that a peer needs to reach this agent's registrations."""
        return self.agent.getLocalMD()

    def get_partial_agent_metadata(
        self, descs: nixlBind.nixlRegDList, inc_conn_info: bool = False, backends: Sequence[str] | None = ()
    ) -> bytes:
        """The same for some registrations."""
        return self.agent.getLocalPartialMD(descs, inc_conn_info, self._handles(backends))

    def add_remote_agent(self, metadata: bytes) -> bytes:
        """Learns about a peer, or what is new about it; its name."""
        return self.agent.loadRemoteMD(metadata)

    def remove_remote_agent(self, agent: str | bytes) -> None:
        """Forgets a peer; its lists and requests are stale from now on. One that is not known stays so."""
        status = self.agent.invalidateRemoteMD(agent)
        if int(status) < 0:
            logger.debug("remove_remote_agent(%r): %s", agent, status.name)

    def peer_events(self) -> list[nixlBind.nixlPeerEvent]:
        """What has happened to peers since the last call, oldest first.

        Objects with peer, kind, why, time, dropped and message. kind: "joined", "updated", "stalled", "resumed",
        "lost", "left" or "undelivered"; docs/peers.md says what each means.
        dropped: how many events before this one nobody took in time (NIXL_PEER_EVENTS).
        message: bytes of the notification that was not delivered, or of which nobody knows; else b"".
        """
        return self.agent.peerEvents()

    def failed_notifs(self) -> list[nixlBind.nixlFailedNotif]:
        """Transfers of peers that failed, and with them their notifications, since the last call, oldest first.

        Objects with peer, message and why. Only agents of this implementation tell, as far as they can reach this one.
        """
        return self.agent.failedNotifs()

    def check_remote_metadata(self, agent: str | bytes, descs: nixlBind.nixlXferDList | None = None) -> bool:
        """Whether a peer is known and has registered all of a list. A local lookup."""
        if descs is None:
            descs = nixlBind.nixlXferDList(nixlBind.DRAM_SEG)
        return self.agent.checkRemoteMD(agent, descs) == nixlBind.NIXL_SUCCESS

    def send_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Sends this agent's metadata to a peer's listener, or without an address to the metadata store."""
        self.agent.sendLocalMD(ip_addr, port)

    def send_partial_agent_metadata(
        self,
        descs: nixlBind.nixlRegDList,
        inc_conn_info: bool = False,
        backends: Sequence[str] | None = (),
        ip_addr: str = "",
        port: int = DEFAULT_COMM_PORT,
        label: str = "",
    ) -> None:
        """The same for some registrations; `label` names them in the store."""
        self.agent.sendLocalPartialMD(descs, inc_conn_info, self._handles(backends), ip_addr, port, label)

    def fetch_remote_metadata(
        self, remote_agent: str | bytes, ip_addr: str = "", port: int = DEFAULT_COMM_PORT, label: str = ""
    ) -> None:
        """Asks a peer's listener, or without an address the metadata store, for a peer's metadata."""
        self.agent.fetchRemoteMD(remote_agent, ip_addr, port, label)

    def invalidate_local_metadata(self, ip_addr: str = "", port: int = DEFAULT_COMM_PORT) -> None:
        """Withdraws this agent's metadata from a peer, or without an address from the metadata store."""
        self.agent.invalidateLocalMD(ip_addr, port)

    # ---- Lists of descriptors ----

    def get_xfer_descs(
        self, descs: Any, mem_type: str | None = None, *, sorted: bool = False
    ) -> nixlBind.nixlXferDList | None:
        """A list for transfers from: such a list, which is passed on; tuples (addr, len, dev_id); an Nx3 array of
        uint64 or int64; a tensor; or several tensors of one device.

        mem_type: a key of nixl_mems; only tensors know it themselves.
        sorted: the caller says that it is in the order of device, address and length: ValueError if it is not.

        None, with a line in the log, if the elements are not of these kinds.
        """
        try:
            return _descs.xfer_list(descs, mem_type, sorted)
        except _descs.DescriptorError as error:
            logger.error("get_xfer_descs: %s", error)
            return None

    def get_reg_descs(
        self, descs: Any, mem_type: str | None = None, *, sorted: bool = False
    ) -> nixlBind.nixlRegDList | None:
        """A list for registering; as get_xfer_descs, but tuples have a fourth element: text for the engine."""
        try:
            return _descs.reg_list(descs, mem_type, sorted)
        except _descs.DescriptorError as error:
            logger.error("get_reg_descs: %s", error)
            return None

    def get_remote_descs(
        self, descs: nixlBind.nixlRemoteDList | list[tuple], mem_type: str | None = None
    ) -> nixlBind.nixlRemoteDList | None:
        """A list for memory views, from such a list or from tuples (addr, len, dev_id, agent name)."""
        try:
            return _descs.remote_list(descs, mem_type)
        except _descs.DescriptorError as error:
            logger.error("get_remote_descs: %s", error)
            return None

    def get_serialized_descs(self, descs: nixlBind.nixlXferDList | nixlBind.nixlRegDList) -> bytes:
        """Bytes for another process: 24 per descriptor for transfers. NIXL reads them, too."""
        return nixlBind.serialize_descs(descs)

    def deserialize_descs(self, serialized_descs: bytes) -> nixlBind.nixlXferDList | nixlBind.nixlRegDList:
        """The list in bytes of get_serialized_descs, of this library or of NIXL.

        Nothing in the bytes is executed; whatever is not a list raises nixlMismatchError.
        """
        return nixlBind.deserialize_descs(serialized_descs)

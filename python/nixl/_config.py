"""How an agent is configured from Python."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from . import _bindings as nixlBind

DEFAULT_COMM_PORT: int = nixlBind.DEFAULT_COMM_PORT


class nixl_thread_sync_t(Enum):
    """Which locking the program asks for. Accepted for compatibility: agents are thread-safe in each mode."""

    NIXL_THREAD_SYNC_NONE = nixlBind.NIXL_THREAD_SYNC_NONE
    NIXL_THREAD_SYNC_STRICT = nixlBind.NIXL_THREAD_SYNC_STRICT
    NIXL_THREAD_SYNC_RW = nixlBind.NIXL_THREAD_SYNC_RW
    NIXL_THREAD_SYNC_DEFAULT = nixlBind.NIXL_THREAD_SYNC_DEFAULT


class nixl_agent_config:
    """What a `nixl_agent` is made with.

    backends: engines to create, in the order of preference; those that do not exist here are skipped with a warning.
        For a network engine that exists but cannot start here LOCAL stands in, with a warning: such an agent has a
        backend of that name, which reaches this host.
    num_threads: threads for engines that have such a parameter; 0 leaves it to them.
    """

    def __init__(
        self,
        enable_prog_thread: bool = True,
        enable_listen_thread: bool = False,
        listen_port: int = DEFAULT_COMM_PORT,
        capture_telemetry: bool = False,
        num_threads: int = 0,
        backends: Sequence[str] = ("UCX",),
        sync_mode: nixl_thread_sync_t | None = None,
    ) -> None:
        if sync_mode is not None and not isinstance(sync_mode, nixl_thread_sync_t):
            raise TypeError(f"sync_mode must be a nixl_thread_sync_t, not {type(sync_mode).__name__}")
        self.backends: list[str] = list(backends)
        self.enable_pthread = enable_prog_thread
        self.enable_listen = enable_listen_thread
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"nixl_agent_config({fields})"


def bindings_config(conf: nixl_agent_config) -> nixlBind.nixlAgentConfig:
    """What the C++ agent is made with; what concerns its engines is not in there."""
    mode = conf.sync_mode
    if mode is None:
        listening = nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT
        mode = listening if conf.enable_listen else nixl_thread_sync_t.NIXL_THREAD_SYNC_DEFAULT
    config = nixlBind.nixlAgentConfig()
    config.useProgThread = conf.enable_pthread
    config.useListenThread = conf.enable_listen
    config.listenPort = conf.port
    config.captureTelemetry = conf.capture_telemetry
    config.syncMode = mode.value
    return config


# Parameters by which engines take a number of threads. An engine that declares one of them is given that; these
# engines of NIXL take one that they do not declare.
_THREAD_PARAMETERS = ("num_threads", "thread_count", "num_cpus")
_UNDECLARED_THREAD_PARAMETERS = {
    "UCX": "num_threads",
    "OBJ": "num_threads",
    "LIBFABRIC": "num_threads",
    "GDS_MT": "thread_count",
    "UCCL": "num_cpus",
}


def thread_parameters(backend: str, declared: dict[str, str], num_threads: int) -> dict[str, str]:
    """Parameters that give an engine `num_threads` threads; none if it has no such parameter."""
    if num_threads <= 0:
        return {}
    names = [name for name in _THREAD_PARAMETERS if name in declared]
    name = names[0] if names else _UNDECLARED_THREAD_PARAMETERS.get(backend)
    return {name: str(num_threads)} if name else {}

"""What is tried: engines, faults, which make sense where, and what a survivor may then see."""

from __future__ import annotations

from dataclasses import dataclass, field

DISCONNECT = "nixlRemoteDisconnectError"
CANCELED = "nixlCancelledError"
BACKEND = "nixlBackendError"
NOT_FOUND = "nixlNotFoundError"
NOT_ALLOWED = "nixlNotAllowedError"
INVALID = "nixlInvalidParamError"

# Answers that a request to a dead, silent or changed peer may end with.
_GONE = frozenset({DISCONNECT, CANCELED, BACKEND, NOT_ALLOWED})
_SILENT = frozenset({DISCONNECT, CANCELED, BACKEND, NOT_ALLOWED})
_UNREGISTERED = frozenset({DISCONNECT, CANCELED, BACKEND, NOT_FOUND, NOT_ALLOWED, INVALID})


@dataclass(frozen=True)
class Fault:
    """seconds: how long it lasts, least and most. errors: what requests may end with while it does.

    needs: what kernel and machine must have. kills: the victim's process ends, and starts anew. network: of the cable.
    silences: nothing is heard of the victim.
    """

    name: str
    seconds: tuple[float, float]
    errors: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    kills: bool = False
    network: bool = False
    silences: bool = False


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", (0.3, 1.0), _GONE | {NOT_FOUND}, kills=True),
        Fault("restart", (0.2, 0.6), _GONE | {NOT_FOUND}, kills=True),
        Fault("stop", (0.3, 2.5), _SILENT, silences=True),
        Fault("deregister", (0.2, 0.8), _UNREGISTERED),
        Fault("loss", (0.8, 1.6), needs=("nft",), network=True),
        Fault("cut", (0.3, 1.5), _SILENT, network=True, silences=True),
        Fault("silence", (0.3, 1.5), _SILENT, needs=("nft",), network=True, silences=True),
        Fault("rate", (0.8, 1.6), needs=("tbf",), network=True),
        Fault("delay", (0.8, 1.6), needs=("tun",), network=True),
        Fault("reorder", (0.8, 1.6), needs=("tun",), network=True),
        Fault("netem", (0.8, 1.6), needs=("netem",), network=True),
    )
}

_HOST = ("kill", "restart", "stop", "deregister")
_CABLE = ("loss", "cut", "silence", "rate", "delay", "reorder", "netem")


@dataclass(frozen=True)
class Engine:
    """packages: of each process, "nixl" or NIXL's wheel. checked: the target refuses what is not registered, so peers
    need not agree before it deregisters. cable: each process has a network namespace of its own.
    keeps_notifications: one that was sent arrives while both processes live, whatever happens to the cable.
    cut_off_loses: a request that is cut off by its deadline may take messages of its connection along, of which none is
    sent again: counted.
    """

    name: str
    backend: str
    faults: tuple[str, ...]
    parameters: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ("nixl",) * 4
    checked: bool = False
    cable: bool = False
    keeps_notifications: bool = True
    cut_off_loses: bool = False


# What has to go over UCX must not be carried by LOCAL.
_UCX = {"NIXL_LOCAL": "off"}
_SHARED = {**_UCX, "UCX_TLS": "tcp,posix,sysv,cma,self", "UCX_NET_DEVICES": "lo"}
DEVICE = "nixlc"
_CABLED = {**_UCX, "UCX_TLS": "tcp", "UCX_NET_DEVICES": DEVICE}

ENGINES = {
    engine.name: engine
    for engine in (
        Engine("local", "LOCAL", _HOST, checked=True),
        Engine("tcp", "UCX", _HOST + _CABLE, environment=_CABLED, checked=True, cable=True),
        Engine(
            "shm",
            "UCX",
            _HOST,
            environment={**_SHARED, "UCX_POSIX_ERROR_HANDLING": "y", "UCX_SYSV_ERROR_HANDLING": "y"},
        ),
        Engine(
            "none",
            "UCX",
            ("stop", "deregister"),
            parameters={"ucx_error_handling_mode": "none"},
            environment=_SHARED,
        ),
        # Metadata of NIXL's agents only adds, so theirs keep what they registered.
        Engine(
            "peer",
            "UCX",
            ("kill", "restart", "stop", *_CABLE),
            environment=_CABLED,
            packages=("nixl", "nixl", "nixl_cu13", "nixl_cu13"),
            cable=True,
            keeps_notifications=False,
            cut_off_loses=True,
        ),
    )
}

# Names an error that a run has to find, which the first process makes once: see worker.py.
BREAK = "CHAOS_BREAK"

# Process 0 is never a victim: what grows in it over a run is a leak.
WITNESS = 0

# Names the library of a sanitizer, with which our processes run.
PRELOAD = "CHAOS_PRELOAD"

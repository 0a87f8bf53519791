"""What is measured: data, in the order in which it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .figures import Reading

# "micro" is a program of its own; see micro.py.
GROUPS = ("host", "tcp", "calls", "cases", "micro")


@dataclass(frozen=True)
class Limit:
    """What the machine allows for a case. methods: name of the reading's key to method of the limit program, "perftest"
    being UCX's own. block and count: the blocks that move."""

    methods: dict[str, str]
    block: int
    count: int = 1


@dataclass(frozen=True)
class Case:
    name: str
    call: str
    arguments: dict[str, object]
    readings: tuple[Reading, ...]
    limit: Limit | None = None
    kind: str = "private"
    environment: dict[str, str] = field(default_factory=dict)
    # Between the processes: "" for this host's own interfaces, "veth" for two namespaces; see network.py.
    network: str = ""
    # Bytes of block size, for the plot; None where the case is no point of it.
    plot: tuple[str, int] | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Scale:
    """How much is measured. A quick run shows that everything works and where the large differences are."""

    mib: int
    count: int
    rounds: int
    repetitions: int
    large: tuple[int, ...]
    seconds: float
    messages: int
    regions: int
    views: int
    view_rounds: int
    descs: int
    c60: int
    # Blocks of one request whose post shows whether its cost grows with them.
    many: int
    # Puts of 1 MiB that the limit of TCP is taken from.
    puts: int


FULL = Scale(
    512, 8192, 5, 3, (1 << 20, 64 << 20, 512 << 20), 1.0, 10000, 4096, 10000, 60, 1_000_000, 15000, 100_000, 1000
)
QUICK = Scale(64, 2048, 3, 3, (1 << 20, 32 << 20), 0.2, 2000, 512, 1000, 5, 50_000, 900, 16_000, 200)

# NIXL's backend does not start on a host with a GPU without a transport that knows its memory.
TCP = {"NIXL_LOCAL": "off", "UCX_TLS": "tcp,cuda_copy" if os.path.exists("/dev/nvidiactl") else "tcp"}
LOOP_BACK = TCP | {"UCX_NET_DEVICES": "lo"}


def size(count: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def select(groups: tuple[str, ...], scale: Scale, kinds: list[str]) -> list[tuple[str, Case]]:
    """The cases of these groups, with the group of each."""
    makers = {"host": _host, "tcp": _tcp, "calls": _calls, "cases": _known_cases}
    return [(group, case) for group in groups if group in makers for case in makers[group](scale, kinds)]


def _scattered(scale, block, kind, methods, environment, series, count=None, network=""):
    count = min(count or scale.count, (scale.mib << 20) // block)
    work = block * count
    return Case(
        f"{count} x {size(block)}, {series}",
        "scattered",
        {"block": block, "count": count, "repetitions": scale.repetitions},
        (
            Reading("WRITE", "write", "GB/s", work),
            Reading("READ", "read", "GB/s", work),
            Reading("post of the WRITE", "write_post", "us"),
        ),
        Limit(methods, block, count),
        kind,
        environment,
        network,
        (series, block),
    )


def _single(scale, nbytes, environment, methods, series, kind="private"):
    small = nbytes <= 65536
    repetitions = scale.repetitions * (100 if small else 1)
    cases = []
    for operation in ("WRITE", "READ"):
        key = operation.lower()
        limit = Limit({key: methods[key]}, nbytes) if key in methods and not small else None
        cases.append(
            Case(
                f"one of {size(nbytes)}, {series}",
                "single",
                {"operation": operation, "size": nbytes, "repetitions": repetitions},
                (Reading(operation, key, "us" if small else "GB/s", nbytes),),
                limit,
                kind,
                environment,
            )
        )
    return cases


def _notifications(scale, environment, series, echo):
    return Case(
        f"notifications, {series}",
        "notifications",
        {"seconds": scale.seconds, "messages": scale.messages},
        (Reading("round trip", "round_trip", "us"), Reading("one way", "one_way", "1/s")),
        Limit({"round_trip": echo}, 8),
        environment=environment,
    )


def _host(scale, kinds):
    process_vm = {"write": "vm_write", "read": "vm_read"}
    memcpy = {"write": "memcpy_write", "read": "memcpy_read"}
    blocks = (512, 4096, 16384, 65536)
    cases = [_scattered(scale, block, "private", process_vm, {}, "private memory") for block in blocks]
    cases.append(_scattered(scale, 4096, "private", process_vm, {}, "private memory, many blocks", scale.many))
    for block in (4096, 16384):
        count = min(scale.count, (scale.mib << 19) // block)
        cases.append(
            Case(
                f"{count} x {size(block)}, loop-back",
                "loopback",
                {"block": block, "count": count, "repetitions": scale.repetitions},
                (Reading("WRITE", "write", "GB/s", block * count),),
                Limit({"write": "memcpy_local"}, block, count),
            )
        )
    for nbytes in (8, 4096, 65536, *scale.large):
        cases += _single(scale, nbytes, {}, process_vm, "private memory")
    cases.append(_notifications(scale, {}, "same host", "unix_echo"))
    # Last, because other memory means other processes.
    if "alloc" in kinds:
        cases += [_scattered(scale, block, "alloc", memcpy, {}, "nixl.alloc") for block in blocks]
        for nbytes in scale.large:
            cases += _single(scale, nbytes, {}, memcpy, "nixl.alloc", "alloc")
    return cases


def _tcp(scale, kinds):
    perftest = {"write": "perftest", "read": "perftest"}
    cases = [_scattered(scale, block, "private", perftest, LOOP_BACK, "TCP") for block in (4096, 16384, 65536)]
    for nbytes in (8, 4096, 65536):
        cases += _single(scale, nbytes, LOOP_BACK, {}, "TCP")
    # C64: plain throughput, beside one stream of a program that only writes to a socket.
    for nbytes in (n for n in scale.large if n <= 64 << 20):
        cases += _single(scale, nbytes, LOOP_BACK, {"write": "socket_write", "read": "socket_write"}, "TCP (C64)")
    cases.append(_notifications(scale, LOOP_BACK, "TCP", "tcp_echo"))
    # Last, because other networks mean other processes.
    for block in (4096, 16384, 65536):
        cases.append(_scattered(scale, block, "private", perftest, TCP, "TCP over veth", network="veth"))
    return cases


def _calls(scale, kinds):
    repetitions = scale.repetitions * 3
    return [
        Case(
            f"{scale.count} x 4 KiB",
            "calls",
            {"block": 4096, "count": scale.count, "repetitions": repetitions},
            (
                Reading("get_xfer_descs, N x 3 array", "descs_array", "us"),
                Reading("get_xfer_descs, list of tuples", "descs_tuples", "us"),
                Reading("prep_xfer_dlist, local", "prep_local", "us"),
                Reading("prep_xfer_dlist, remote", "prep_remote", "us"),
                Reading("make_prepped_xfer", "make", "us"),
                Reading("initialize_xfer", "initialize", "us"),
            ),
        ),
        Case(
            f"{scale.regions} regions",
            "regions",
            {"count": scale.regions, "repetitions": scale.repetitions},
            (
                Reading("register", "register", "ms"),
                Reading("get_agent_metadata", "get_metadata", "ms"),
                Reading("add_remote_agent", "load_metadata", "ms"),
            ),
        ),
        Case(
            f"{scale.views} views, {scale.view_rounds} rounds",
            "views",
            {"count": scale.views, "rounds": scale.view_rounds},
            (Reading("second round", "second_round", "ms"), Reading("last round", "last_round", "ms")),
            rounds=1,
        ),
        Case("idle", "idle", {"seconds": scale.seconds}, (Reading("processor", "share", "% of a core"),)),
    ]


def _known_cases(scale, kinds):
    """Cases that users of such libraries met. C64 is in the group of TCP."""
    c60 = _scattered(
        scale, 66 << 10, "private", {"write": "vm_write", "read": "vm_read"}, {}, "private memory (C60)", scale.c60
    )
    return [
        c60,
        Case(
            f"{scale.descs} blocks (C62)",
            "many_descs",
            {"count": scale.descs, "repetitions": scale.repetitions},
            (
                Reading("get_xfer_descs, list of tuples", "descs_tuples", "ms"),
                Reading("get_xfer_descs, N x 3 array", "descs_array", "ms"),
                Reading("prep_xfer_dlist, list of tuples", "prep_tuples", "ms"),
                Reading("prep_xfer_dlist, N x 3 array", "prep_array", "ms"),
                Reading("prep_xfer_dlist, one strided row", "prep_strided", "ms"),
            ),
        ),
    ]


def memory_mib(group: str, scale: Scale) -> int:
    """Memory of each side for a group: C60 moves about a gigabyte."""
    return max(scale.mib, (scale.c60 * (66 << 10) >> 20) + 1) if group == "cases" else scale.mib

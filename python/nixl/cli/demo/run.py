"""The steps of the demo, in order."""

from __future__ import annotations

import argparse
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..progress import Progress
from . import layout, memory, protocol
from .cache import DIGEST_BYTES
from .errors import Refused
from .member import Member, Process, Remote
from .source import Source
from .supervisor import Supervisor
from .target import Target

PING_ROUNDS = 2000
PING_LIMIT_S = 3.0


@dataclass
class Outcome:
    """Everything there is to report."""

    source: Source
    backend: str
    seed: int
    merge: bool
    repeat: int
    block_bytes: int
    blocks: int
    out: str | None
    decode_at: str | None
    """Where decode runs, if not on this host."""
    requests: int = 0
    sha256: str = ""
    write_path: dict | None = None
    read_path: dict | None = None
    write_s: float = 0.0
    read_s: float = 0.0
    notification: dict | None = None
    difference: str = ""

    @property
    def verified(self) -> bool:
        return not self.difference

    @property
    def moved_bytes(self) -> int:
        """In one direction, once."""
        return self.blocks * self.block_bytes


def run(args: argparse.Namespace, source: Source, target: Target, progress: Progress) -> Outcome:
    """Raises Refused or Failed; wrong bytes are an outcome, told by `difference`."""
    blocks = layout.block_count(source.bytes, args.block_size)
    places = blocks + layout.SPARE_BLOCKS
    memory.check(memory.needed(blocks, 0 if args.connect else places, args.block_size), memory.available())
    if places > layout.LARGEST_PLACES:
        raise Refused(f"{blocks:,} blocks are too many; a larger --block-size makes fewer")
    order = layout.in_order(blocks) if args.merge else layout.scattered(blocks, places, args.seed)
    outcome = Outcome(
        source, args.backend, args.seed, args.merge, args.repeat, args.block_size, blocks, args.out,
        decode_at=str(args.connect) if args.connect else None, requests=len(layout.request_spans(blocks)),
    )  # fmt: skip
    with Supervisor(args.timeout, _starts(args)) as team:
        _move(team, outcome, order, places, progress)
        team.problem = outcome.difference = _check(team, outcome, progress)
        if outcome.verified and (target.path or team.saves()):
            progress.begin("save", source.bytes)
            team.order({"decode": ("save", {"path": target.path} if target.path else {})}, "decode", progress.update)
            progress.end()
    return outcome


def _starts(args: argparse.Namespace) -> list[Callable[[], Member]]:
    if not args.connect:
        return [partial(Process, role, args.backend, args.timeout) for role in ("prefill", "decode")]
    return [
        # The connection first, as it is what may fail.
        partial(Remote, args.connect, args.backend, args.timeout),
        partial(Process, "prefill", args.backend, args.timeout, apart=True),
    ]


def _move(team: Supervisor, outcome: Outcome, order: list[int], places: int, progress: Progress) -> None:
    """Both processes get ready and learn about each other; then WRITE, then READ."""
    source, blocks, block_bytes = outcome.source, outcome.blocks, outcome.block_bytes
    start = ("start", {"backend": outcome.backend})
    team.order({"prefill": start, "decode": start})

    progress.begin("prefill reads", source.bytes)
    ready = team.order(
        {
            "prefill": (
                "load",
                {"label": source.label, "parts": source.parts, "blocks": blocks, "block_bytes": block_bytes},
            ),
            "decode": ("allocate", {"places": places, "block_bytes": block_bytes, "length": source.bytes}),
        },
        "prefill",
        progress.update,
    )
    progress.end()
    outcome.sha256 = ready["prefill"]["sha256"]

    # Here the metadata travels through the supervisor; any way that programs have will do.
    team.order(
        {
            "prefill": ("connect", {"metadata": ready["decode"]["metadata"]}),
            "decode": ("connect", {"metadata": ready["prefill"]["metadata"]}),
        }
    )
    pings = ("measure_pings", {"rounds": PING_ROUNDS, "limit_s": PING_LIMIT_S})
    outcome.notification = team.order({"prefill": pings, "decode": ("answer_pings", {})})["prefill"]

    for at in range(0, blocks, protocol.PLACES_PER_PART):
        part = ("place_blocks", {"part": array("i", order[at : at + protocol.PLACES_PER_PART]).tobytes()})
        team.order({"prefill": part, "decode": part})
    outcome.write_path = team.ask("prefill", "prepare_writes", address=ready["decode"]["address"], places=places)
    outcome.read_path = team.ask("decode", "prepare_reads", address=ready["prefill"]["address"])
    outcome.write_s = _transfer(team, outcome, "WRITE", "prefill", "write", "decode", progress)
    outcome.read_s = _transfer(team, outcome, "READ", "decode", "read_back", "prefill", progress)


def _transfer(
    team: Supervisor, outcome: Outcome, operation: str, poster: str, name: str, other: str, progress: Progress
) -> float:
    """One side moves everything while the other waits for the notifications; the median of the seconds."""
    progress.begin(f"{poster} {operation}s", outcome.moved_bytes * outcome.repeat)
    results = team.order(
        {
            poster: (name, {"repeat": outcome.repeat}),
            other: ("await_transfers", {"operation": operation, "repeat": outcome.repeat}),
        },
        poster,
        progress.update,
    )
    progress.end()
    return results[poster]


def _check(team: Supervisor, outcome: Outcome, progress: Progress) -> str:
    """Compares what both processes hold now with what was read from the file; "" if all is right."""
    for area, operation in (("written", "WRITE"), ("read", "READ")):
        progress.begin(f"check {operation}", outcome.source.bytes)
        orders = {"decode": ("check", {"area": area})}
        if area == "read":
            orders["prefill"] = ("check", {})
        found = team.order(orders, "decode", progress.update)
        progress.end()
        if found.get("prefill", outcome.sha256) != outcome.sha256:
            return "prefill's cache is not what was read from the file any more"
        if found["decode"] != outcome.sha256:
            return f"{operation}: {_where(team, outcome, area)}"
    return ""


def _where(team: Supervisor, outcome: Outcome, area: str) -> str:
    """Names the first byte of decode's area that differs from prefill's cache, and how many blocks do."""
    wrong: list[int] = []
    for first in range(0, outcome.blocks, protocol.DIGESTS_PER_PART):
        count = min(protocol.DIGESTS_PER_PART, outcome.blocks - first)
        mine = team.ask("prefill", "block_digests", first=first, count=count)
        theirs = team.ask("decode", "block_digests", area=area, first=first, count=count)
        wrong += [
            first + i for i in range(count)
            if mine[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES] != theirs[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES]
        ]  # fmt: skip
    if not wrong:
        return "decode's SHA-256 is wrong, although its blocks are right now"
    block = wrong[0]
    inside = _first_difference(team, outcome, area, block)
    return (
        f"{len(wrong)} of {outcome.blocks} blocks differ, first at byte {block * outcome.block_bytes + inside} "
        f"of the file (block {block}, byte {inside} of it)"
    )


def _first_difference(team: Supervisor, outcome: Outcome, area: str, block: int) -> int:
    for first in range(0, outcome.block_bytes, protocol.BYTES_PER_PART):
        piece = {"block": block, "first": first, "count": protocol.BYTES_PER_PART}
        right = team.ask("prefill", "block_bytes", **piece)
        got = team.ask("decode", "block_bytes", area=area, **piece)
        for i, (a, b) in enumerate(zip(right, got)):
            if a != b:
                return first + i
    return 0

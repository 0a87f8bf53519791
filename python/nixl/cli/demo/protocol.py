"""What the two sides of `--connect` and `--listen` say to each other, and whether what one says can be right.

    connecting                          listening
    hello {nixl, backend}     ->
                              <-        welcome {nixl, saves}, or refused TEXT
    ORDER {its arguments}     ->
                              <-        progress BYTES, any number
                              <-        result VALUE, refused TEXT or failed TEXT
    alive                     ->        now and then, also while an order is carried out
    quit {problem}            ->        problem: "" after a run that succeeded
                              <-        died TEXT: the process that carries out orders is gone

Orders are methods of Decode. One is given when the one before it has its result. Neither side trusts the other: each
message is checked here before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .arguments import LARGEST_BLOCK, LARGEST_REPEAT, SMALLEST_BLOCK
from .layout import LARGEST_PLACES

HELLO_S = 10.0
ALIVE_S = 1.0

# Digests, bytes and places travel in parts well below a frame.
DIGESTS_PER_PART = 1 << 16
BYTES_PER_PART = 1 << 20
PLACES_PER_PART = 1 << 16

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Order:
    arguments: Check
    result: Check
    once: bool = False


def integer(least: int, most: int) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def text(limit: int = 1 << 16) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= limit


def blob(value: Any) -> bool:
    return isinstance(value, bytes)


def one_of(*values: Any) -> Check:
    return lambda value: isinstance(value, str) and value in values


def seconds(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12


def nothing(value: Any) -> bool:
    return value is None


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def record(**fields: Check) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == fields.keys()
        and all(check(value[name]) for name, check in fields.items())
    )


def several(check: Check, limit: int = 1000) -> Check:
    return lambda value: isinstance(value, list) and len(value) <= limit and all(map(check, value))


ADDRESS = integer(0, (1 << 64) - 1)
COUNT = integer(0, LARGEST_PLACES)
AREA = one_of("written", "read")
OPERATION = one_of("WRITE", "READ")
REPEAT = integer(1, LARGEST_REPEAT)
PROGRESS = integer(0, 1 << 62)
PATH = record(
    backend=text(),
    path=text(),
    reason=text(),
    blocks_after_merging=integer(0, 1 << 63),
    refused=several(record(backend=text(), path=text(), reason=text())),
)

HELLO = record(nixl=text(100), backend=text(100))
WELCOME = record(nixl=text(100), saves=flag)
QUIT = record(problem=text())

ORDERS = {
    "start": Order(record(backend=text(100)), nothing, once=True),
    "allocate": Order(
        record(
            places=integer(1, LARGEST_PLACES),
            block_bytes=integer(SMALLEST_BLOCK, LARGEST_BLOCK),
            length=integer(1, 1 << 62),
        ),
        record(address=ADDRESS, metadata=blob),
        once=True,
    ),
    "connect": Order(record(metadata=blob), nothing, once=True),
    "answer_pings": Order(record(), nothing),
    "place_blocks": Order(record(part=blob), nothing),
    "prepare_reads": Order(record(address=ADDRESS), PATH, once=True),
    "read_back": Order(record(repeat=REPEAT), seconds),
    "await_transfers": Order(record(operation=OPERATION, repeat=REPEAT), nothing),
    "check": Order(record(area=AREA), text(64)),
    "block_digests": Order(record(area=AREA, first=COUNT, count=integer(1, DIGESTS_PER_PART)), blob),
    "block_bytes": Order(
        record(area=AREA, block=COUNT, first=integer(0, LARGEST_BLOCK), count=integer(1, BYTES_PER_PART)), blob
    ),
    "save": Order(record(), nothing, once=True),
}


def versions_differ(connecting: str, listening: str) -> str:
    return f"nixl {connecting} connects and nixl {listening} listens; both sides need the same version"

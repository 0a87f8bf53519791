"""What memory holds: every word of a slot says whose it is, which slot, which version and where in it.

So a block that is torn, stale, misplaced or foreign names itself. Used by the workers and by the model.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

# Bytes of the slots that a process has for each sender: one message, one packed block, copies by a thread, by many.
SIZES = (512, 4096, 65536, 262144, 1 << 20, (2 << 20) + 4096)
BLOCKS = 16
GUARD = 64
_WORD = np.uint64
_STEP = 0x9E3779B97F4A7C15
_ODD = 0xD6E8FEB86659FD93
_INVERSE = pow(_ODD, -1, 1 << 64)


class Stamp(NamedTuple):
    """life: how often the writer's process had been started. version 0: never written."""

    writer: int
    owner: int
    life: int
    slot: int
    version: int

    def pack(self) -> int:
        return self.writer << 56 | self.owner << 48 | self.life << 36 | self.slot << 28 | self.version

    @staticmethod
    def unpack(number: int) -> Stamp:
        return Stamp(number >> 56, number >> 48 & 0xFF, number >> 36 & 0xFFF, number >> 28 & 0xFF, number & 0xFFFFFFF)

    def __str__(self) -> str:
        return f"version {self.version} of slot {self.slot} by {self.writer}.{self.life} for {self.owner}"


def _steps(words: int) -> np.ndarray:
    return np.arange(words, dtype=_WORD) * _WORD(_STEP)


def content(stamp: Stamp, size: int) -> np.ndarray:
    """The bytes of a slot of this size."""
    first = _WORD(stamp.pack() * _ODD & (1 << 64) - 1)
    return (_steps(size // 8) + first).view(np.uint8)


def scattered(data: np.ndarray) -> np.ndarray:
    """The same with the order of its blocks turned round, as a writer holds it: blocks that cannot be merged."""
    return data.reshape(BLOCKS, -1)[::-1].reshape(-1)


def found(data: np.ndarray) -> list[tuple[int, int]]:
    """(packed stamp, how many words have it), the most frequent first; at most four. Reads each word once."""
    words = data.view(_WORD).copy()
    stamps = (words - _steps(words.size)) * _WORD(_INVERSE)
    if (stamps == stamps[0]).all():
        return [(int(stamps[0]), words.size)]
    return [(int(stamp), count) for stamp, count in Counter(stamps.tolist()).most_common(4)]


class Layout:
    """Where the slots of one process lie in its inbox: `count` senders, itself among them, with guards between."""

    def __init__(self, count: int) -> None:
        self.offsets: dict[tuple[int, int], int] = {}
        self.guards: list[int] = []
        at = 0
        for sender in range(count):
            for slot, size in enumerate(SIZES):
                self.guards.append(at)
                at += GUARD
                self.offsets[sender, slot] = at
                at += size
        self.guards.append(at)
        self.size = at + GUARD

    @staticmethod
    def blocks(base: int, slot: int) -> list[tuple[int, int, int]]:
        """Descriptors of a slot at an address."""
        size = SIZES[slot] // BLOCKS
        return [(base + index * size, size, 0) for index in range(BLOCKS)]

"""Asks the participants in turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from .cases import Case
from .figures import Row
from .participants import Failed

CELLS = 24


class Progress:
    """A bar on a terminal, elsewhere a line per case. total: rounds of all cases."""

    def __init__(self, total: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._total = max(total, 1)
        self._done = 0
        self._terminal = self._stream.isatty()
        self._clock = clock
        self._began = clock()
        self._case = ""

    def step(self, case: str, participant: str) -> None:
        """`participant` is about to measure `case`."""
        state = f"{self._done / self._total:4.0%} {self._clock() - self._began:4.0f} s"
        if self._terminal:
            filled = self._done * CELLS // self._total
            bar = "#" * filled + "." * (CELLS - filled)
            self._stream.write(f"\r[{bar}] {state}  {case}: {participant}"[:110] + "\x1b[K")
        elif case != self._case:
            self._stream.write(f"{state}  {case}\n")
        self._case = case
        self._stream.flush()

    def round_done(self) -> None:
        self._done = min(self._done + 1, self._total)

    def note(self, text: str) -> None:
        self._stream.write(f"{chr(13)}{chr(27)}[K{text}\n" if self._terminal else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def measure(
    group: str, case: Case, participants: Iterable[tuple[str, object]], rounds: int, progress: Progress
) -> list[Row]:
    """The rows of a case. In every round everybody measures once; who begins changes from round to round.

    A participant that fails is left out of the rest of the case, and the reason is told.
    """
    rows = [Row(group, case.name, reading) for reading in case.readings]
    left = list(participants)
    for number in range(case.rounds or rounds):
        start = number % len(left) if left else 0
        for name, participant in left[start:] + left[:start]:
            progress.step(case.name, name)
            try:
                seconds = participant.measure(case)
            except Failed as failure:
                progress.note(f"{case.name}: {failure}")
                left = [entry for entry in left if entry[0] != name]
                continue
            for row in rows:
                if row.reading.key in seconds:
                    row.add(name, seconds[row.reading.key])
        progress.round_done()
    return [row for row in rows if row.rounds]

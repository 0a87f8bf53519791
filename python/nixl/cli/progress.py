"""Shows how far a long step is: a bar on a terminal, a plain line now and then elsewhere, or nothing.

A stream that takes no more ends the showing, not the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from .output import write
from .text import amount

BAR_CELLS = 30
REDRAW_S = 0.1
PLAIN_LINE_S = 2.0


class Progress:
    """One step at a time: begin, any number of updates, end. Not for several threads."""

    def __init__(self, stream: TextIO, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._quiet = quiet
        self._terminal = not quiet and stream.isatty()
        self._clock = clock
        self._label: str | None = None

    def begin(self, label: str, total_bytes: int) -> None:
        self._label, self._total, self._done = label, total_bytes, 0
        self._began = self._shown = self._clock()
        if self._terminal:
            self._draw()

    def update(self, done_bytes: int) -> None:
        """`done_bytes` of the step in all, not since the last update."""
        self._done = min(done_bytes, self._total)
        now = self._clock()
        if self._quiet or now - self._shown < (REDRAW_S if self._terminal else PLAIN_LINE_S):
            return
        self._shown = now
        self._draw()

    def end(self) -> None:
        """The step is complete; its last state stays on the screen."""
        self._done = self._total
        if not self._quiet:
            self._draw()
        self._close_line()

    def abandon(self) -> None:
        """The step will not be completed; what follows starts on a line of its own."""
        if self._label is not None:
            self._close_line()

    def _close_line(self) -> None:
        if self._terminal:
            write(self._stream, "\n")
        self._label = None

    def _draw(self) -> None:
        line = self._line()
        # "\x1b[K" clears what a longer line before may have left.
        write(self._stream, f"\r{line}\x1b[K" if self._terminal else f"{line}\n")

    def _line(self) -> str:
        share = self._done / self._total if self._total else 1.0
        seconds = self._clock() - self._began
        speed = f"{self._done / seconds / 1e9:5.2f} GB/s" if seconds > 0 and self._done else ""
        filled = int(share * BAR_CELLS)
        bar = f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] " if self._terminal else ""
        return f"{self._label:<14} {bar}{share:4.0%} of {amount(self._total)}  {speed}".rstrip()

"""Writing to the program's streams, which may be closed, full, or a pipe that nobody reads."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def prepare_streams() -> None:
    """Makes stdout and stderr such that everything can be printed. What a closed one is given goes nowhere."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one. Left free, a pipe of ours would get it, and output would go there.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # File names may hold bytes, and terminals may lack letters, that cannot be printed as they are.
            stream.reconfigure(errors="backslashreplace")


def write(stream: TextIO, text: str) -> OSError | None:
    """Writes `text` now. If that fails, it and all that follows goes nowhere, and the error is returned."""
    try:
        stream.write(text)
        stream.flush()
        return None
    except OSError as error:
        # What the stream still holds would fail again when Python ends.
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        return error


def print_result(program: str, text: str) -> bool:
    """Writes to stdout. False: that failed, which is told in one line, unless the reader of a pipe just had enough."""
    error = write(sys.stdout, text)
    if error is not None and not isinstance(error, BrokenPipeError):
        write(sys.stderr, f"{program}: cannot write the result: {error.strerror}\n")
    return error is None

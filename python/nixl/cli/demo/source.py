"""What prefill reads: the user's file, or files that every machine has."""

from __future__ import annotations

import os
import stat
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass

from ..text import amount
from .errors import Refused

ENOUGH_BYTES = 100_000_000


@dataclass(frozen=True)
class Source:
    """Files to be read one after the other, with the sizes they had when they were looked at."""

    label: str
    parts: list[tuple[str, int]]

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.parts)


def find_source(path: str | None) -> Source:
    """The file at `path`, or without one at least ENOUGH_BYTES of this machine's files. Raises Refused."""
    return _of_file(path) if path is not None else _of_machine()


def _of_file(path: str) -> Source:
    try:
        # Non-blocking, as opening a named pipe without a writer would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Refused(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise Refused(f"cannot read {path}: it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"cannot read {path}: it is not a regular file")
    if status.st_size == 0:
        raise Refused(f"{path} is empty; there is nothing to move")
    return Source(path, [(path, status.st_size)])


def _of_machine() -> Source:
    """The same files in the same order at every run, as long as the machine stays as it is."""
    parts: list[tuple[str, int]] = []
    total = 0
    for path, size in _machine_files():
        parts.append((path, size))
        total += size
        if total >= ENOUGH_BYTES:
            break
    if not parts:
        raise Refused("found no file of this machine to move; name one")
    count = len(parts)
    while total < ENOUGH_BYTES:
        parts.append(parts[len(parts) % count])
        total += parts[-1][1]
    return Source(f"{count} files of this machine ({amount(total)}), from {os.path.dirname(parts[0][0])} on", parts)


def _machine_files() -> Iterator[tuple[str, int]]:
    """Readable regular files: the interpreter's library, then the system's libraries and programs."""
    for top in (sysconfig.get_path("stdlib"), "/usr/lib", "/usr/bin", "/lib", "/bin"):
        for folder, folders, names in os.walk(top):
            # Caches of compiled files come and go.
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode) and status.st_size and os.access(path, os.R_OK):
                    yield path, status.st_size

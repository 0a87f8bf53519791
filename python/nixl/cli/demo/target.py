"""Where --out goes. An existing file is replaced only by a complete one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat

from ..text import amount
from .errors import Refused


class Target:
    """`path` is what decode writes to (None: nothing is saved); keep() makes it the user's file.

    `size`: bytes that there must be room for. As a context it proves at the start that the target can be written and
    cleans up at the end.
    """

    def __init__(self, wanted: str | None, size: int = 0) -> None:
        self.path: str | None = None
        self._wanted = wanted
        self._final = ""
        self._bytes = size
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Target:
        if self._wanted is None:
            return self
        try:
            self._prepare(self._wanted)
        except Refused:
            self.__exit__()
            raise
        except (OSError, ValueError) as error:
            self.__exit__()
            raise Refused(f"cannot write {self._wanted}: {getattr(error, 'strerror', None) or error}") from None
        return self

    def __exit__(self, *_exception) -> None:
        self._open.close()
        if self._final and self.path:
            os.unlink(self.path)

    def keep(self) -> None:
        """REQUIRES: decode wrote all of it."""
        if not self._final:
            return
        assert self.path
        try:
            os.replace(self.path, self._final)
        except OSError as error:
            raise Refused(f"cannot write {self._wanted}: {error.strerror}") from None
        self._final = ""

    def _prepare(self, wanted: str) -> None:
        if not wanted:
            raise Refused("cannot write to a file without a name (--out '')")
        final = os.path.realpath(wanted)
        status = os.stat(wanted) if os.path.exists(wanted) else None
        mode = status.st_mode if status else None
        if wanted.endswith("/") or (mode is not None and stat.S_ISDIR(mode)):
            raise Refused(f"cannot write {wanted}: it is a directory")
        if status and _is_output(status):
            raise Refused(f"cannot write {wanted}: the result is printed there")
        if status and not os.path.exists(final):
            raise Refused(f"cannot write {wanted}: it has no name by which decode could open it")
        if mode is not None and not os.access(final, os.W_OK):
            raise Refused(f"cannot write {wanted}: Permission denied")
        if mode is not None and not stat.S_ISREG(mode):
            self._use_special(final, mode)
        else:
            self._create_partial(final, mode)

    def _use_special(self, path: str, mode: int) -> None:
        """A device or pipe: nothing that could be half-written."""
        if stat.S_ISFIFO(mode):
            try:
                # Held until the end: a reader takes the first close for the end of the data.
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                raise Refused(f"cannot write {self._wanted}: no process reads from this pipe") from None
            self._open.callback(os.close, descriptor)
        self.path = path

    def _create_partial(self, final: str, mode: int | None) -> None:
        folder = os.path.dirname(final)
        # The user's name may be as long as names can be; a short one of ours always fits.
        partial = os.path.join(folder, f".nixl-demo-{secrets.token_hex(8)}.part")
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        self.path, self._final = partial, final
        # After the file is there: file systems that take no files report no room.
        self._check_space(folder)
        if mode is not None:
            shutil.copymode(final, partial)

    def _check_space(self, folder: str) -> None:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < self._bytes:
            raise Refused(
                f"cannot write {self._wanted}: it needs {amount(self._bytes)}, {amount(free)} are free in {folder}"
            )


def _is_output(status: os.stat_result) -> bool:
    """Whether it is what this program prints to; terminals and the like take data besides."""
    if stat.S_ISCHR(status.st_mode):
        return False
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(status, os.fstat(descriptor)):
                return True
    return False

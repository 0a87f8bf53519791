"""Where --out goes. An existing file is replaced only by a complete one."""

from __future__ import annotations

import os
import secrets
import shutil
import stat

from ..text import amount
from .errors import Refused
from .source import Source


class Target:
    """`path` is what decode writes to (None: nothing is saved); keep() makes it the user's file.

    As a context it proves at the start that the target can be written and cleans up at the end.
    """

    def __init__(self, wanted: str | None, source: Source) -> None:
        self.path: str | None = None
        self._wanted = wanted
        self._final = ""
        self._bytes = source.bytes

    def __enter__(self) -> Target:
        if self._wanted is None:
            return self
        try:
            self._prepare(self._wanted)
        except (OSError, ValueError) as error:
            self.__exit__()
            raise Refused(f"cannot write {self._wanted}: {getattr(error, 'strerror', None) or error}") from None
        return self

    def __exit__(self, *_exception) -> None:
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
        final = os.path.realpath(wanted)
        mode = os.stat(final).st_mode if os.path.exists(final) else None
        if wanted.endswith("/") or (mode is not None and stat.S_ISDIR(mode)):
            raise Refused(f"cannot write {wanted}: it is a directory")
        if mode is not None and not os.access(final, os.W_OK):
            raise Refused(f"cannot write {wanted}: Permission denied")
        if mode is not None and not stat.S_ISREG(mode):
            self.path = final  # a device or pipe: nothing that could be half-written
            return
        folder = os.path.dirname(final)
        self._check_space(folder)
        # The user's name may be as long as names can be; a short one of ours always fits.
        partial = os.path.join(folder, f".nixl-demo-{secrets.token_hex(8)}.part")
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        self.path, self._final = partial, final
        if mode is not None:
            shutil.copymode(final, partial)

    def _check_space(self, folder: str) -> None:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < self._bytes:
            raise Refused(
                f"cannot write {self._wanted}: it needs {amount(self._bytes)}, {amount(free)} are free in {folder}"
            )

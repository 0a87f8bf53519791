"""A paged KV cache in host memory: blocks of one size, one after the other."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
from collections.abc import Callable, Sequence

from ..text import amount
from .errors import Failed, Refused
from .source import Source

# What is read, touched or hashed between two reports of progress.
STEP_BYTES = 8 << 20
DIGEST_BYTES = 8

Report = Callable[[int], None]


class PagedCache:
    """The memory stays where it is as long as the object lives."""

    def __init__(self, blocks: int, block_bytes: int) -> None:
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.bytes = blocks * block_bytes
        try:
            self._memory = mmap.mmap(-1, self.bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            cause = getattr(error, "strerror", None) or error
            raise Refused(f"too little memory: {amount(self.bytes)} for a cache could not be had: {cause}") from None
        self._view = memoryview(self._memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def touch(self, report: Report) -> None:
        """Has the pages now rather than during the transfers, as a server has that has been up for a while."""
        page = mmap.PAGESIZE
        for at in range(0, self.bytes, STEP_BYTES):
            pages = self._view[at : min(at + STEP_BYTES, self.bytes) : page]
            pages[:] = bytes(len(pages))
            report(at)

    def block(self, index: int) -> memoryview:
        at = index * self.block_bytes
        return self._view[at : at + self.block_bytes]

    def fill(self, source: Source, report: Report) -> str:
        """Reads the files into the blocks in order; returns the SHA-256 of what was read.

        Raises Refused if one cannot be read, or has fewer bytes than the system said.
        """
        digest = hashlib.sha256()
        at = 0
        for path, size in source.parts:
            end = at + size
            try:
                with open(path, "rb", buffering=0) as file:
                    while at < end:
                        count = file.readinto(self._view[at : min(at + STEP_BYTES, end)])
                        if not count:
                            raise Refused(f"{path} ended after {at - end + size:,} of {size:,} bytes")
                        digest.update(self._view[at : at + count])
                        at += count
                        report(at)
            except OSError as error:
                raise Refused(f"cannot read {path}: {error.strerror}") from None
        return digest.hexdigest()

    def sha256(self, order: Sequence[int], length: int, report: Report) -> str:
        """Hash of the first `length` bytes of the blocks taken in `order`."""
        digest = hashlib.sha256()
        self.each_piece(order, length, digest.update, report)
        return digest.hexdigest()

    def save(self, path: str, order: Sequence[int], length: int, report: Report) -> None:
        """Writes the first `length` bytes of the blocks taken in `order`. Raises Failed."""
        try:
            with open(path, "wb", buffering=1 << 20) as file:
                self.each_piece(order, length, file.write, report)
        except OSError as error:
            raise Failed(f"cannot write {path}: {error.strerror}") from None

    def block_digests(self, order: Sequence[int]) -> bytes:
        """DIGEST_BYTES for each block taken in `order`, to find out which differ."""
        return b"".join(hashlib.blake2b(self.block(i), digest_size=DIGEST_BYTES).digest() for i in order)

    def each_piece(
        self, order: Sequence[int], length: int, take: Callable[[memoryview], object], report: Report
    ) -> None:
        """Calls `take` with each block in `order`, the last one cut so that `length` bytes are taken in all."""
        done = reported = 0
        for index in order:
            piece = self.block(index)[: length - done]
            take(piece)
            done += len(piece)
            if done - reported >= STEP_BYTES:
                reported = done
                report(done)

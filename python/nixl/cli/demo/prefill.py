"""The role that holds the file and WRITEs it into decode's cache."""

from __future__ import annotations

from .cache import PagedCache
from .participant import Participant
from .source import Source


class Prefill(Participant):
    name = "prefill"

    def load(self, label: str, parts: list, blocks: int, block_bytes: int) -> dict:
        """Reads the files into a cache of its own; returns what the other side needs to know."""
        source = Source(label, [(path, size) for path, size in parts])
        self.length, self.block_size = source.bytes, block_bytes
        self.cache = PagedCache(blocks, block_bytes)
        self.sha256 = self.cache.fill(source, self.report)
        self.register(self.cache)
        return {"sha256": self.sha256, "address": self.cache.address, "metadata": self.metadata()}

    def prepare_writes(self, address: int, places: int) -> dict:
        """Requests that put block i of the file at place order[i] of decode's cache at `address`."""
        cache = self.cache
        local = self.prepare_blocks("", cache.address, cache.blocks, cache.block_bytes)
        remote = self.prepare_blocks(self.peer, address, places, cache.block_bytes)
        self.requests = self.make_requests("WRITE", local, range(cache.blocks), remote, self.order)
        return self.explain(self.requests)

    def write(self, repeat: int) -> float:
        return self.run_requests(self.requests, repeat)

    def check(self) -> str:
        """SHA-256 of the cache as it is now; READs must not have changed it."""
        return self.cache.sha256(range(self.cache.blocks), self.length, self.report)

    def block_digests(self, first: int, count: int) -> bytes:
        return self.cache.block_digests(range(self.cache.blocks)[first : first + count])

    def block_bytes(self, block: int, first: int, count: int) -> bytes:
        return bytes(self.cache.block(block)[first : first + count])

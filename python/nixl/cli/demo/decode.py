"""The role that receives the file as scattered blocks and READs it back from prefill."""

from __future__ import annotations

from .cache import PagedCache
from .participant import Participant


class Decode(Participant):
    name = "decode"

    def allocate(self, places: int, block_bytes: int) -> dict:
        """Two areas: one that prefill writes to, one that this side reads into."""
        self.written = PagedCache(places, block_bytes)
        self.read = PagedCache(places, block_bytes)
        self.written.touch(self.report)
        self.read.touch(self.report)
        self.register(self.written)
        self.register(self.read)
        return {"address": self.written.address, "metadata": self.metadata()}

    def use_layout(self, order: list[int], length: int) -> None:
        """Block i of the file belongs at place order[i] of both areas."""
        self.order = order
        self.length = length

    def prepare_reads(self, address: int) -> dict:
        """Requests that fetch block i from prefill's cache at `address` into place order[i]."""
        area, blocks = self.read, len(self.order)
        local = self.prepare_blocks("", area.address, area.blocks, area.block_bytes)
        remote = self.prepare_blocks(self.peer, address, blocks, area.block_bytes)
        self.requests = self.make_requests("READ", local, self.order, remote, range(blocks))
        return self.explain(self.requests)

    def read_back(self, repeat: int) -> list[float]:
        return self.run_requests(self.requests, len(self.order), self.read.block_bytes, repeat)

    def check(self, area: str) -> str:
        """SHA-256 of the file as it lies in the area "written" or "read"."""
        return getattr(self, area).sha256(self.order, self.length, self.report)

    def block_digests(self, area: str) -> bytes:
        return getattr(self, area).block_digests(self.order)

    def block_bytes(self, area: str, block: int) -> bytes:
        return bytes(getattr(self, area).block(self.order[block]))

    def save(self, path: str) -> None:
        self.written.save(path, self.order, self.length, self.report)

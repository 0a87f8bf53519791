"""The role that receives the file as scattered blocks and READs it back from prefill.

Its orders may come from another host; protocol.py says what they can be.
"""

from __future__ import annotations

from array import array

from .cache import PagedCache
from .errors import Failed
from .participant import Participant


class Decode(Participant):
    name = "decode"

    def allocate(self, places: int, block_bytes: int, length: int) -> dict:
        """Two areas: one that prefill writes to, one that this side reads into. `length`: bytes of the file."""
        self.length, self.block_size = length, block_bytes
        self.written = PagedCache(places, block_bytes)
        self.read = PagedCache(places, block_bytes)
        self.written.touch(self.report)
        self.read.touch(self.report)
        self.register(self.written)
        self.register(self.read)
        return {"address": self.written.address, "metadata": self.metadata()}

    def place_blocks(self, part: bytes) -> None:
        super().place_blocks(part)
        places = self.written.blocks
        added = self.order[len(self.order) - len(part) // array("i").itemsize :]
        if len(self.order) > places or any(not 0 <= place < places for place in added):
            raise Failed(f"blocks were put where none of the {places} places is")

    def prepare_reads(self, address: int) -> dict:
        """Requests that fetch block i from prefill's cache at `address` into place order[i]."""
        area, blocks = self.read, len(self.order)
        local = self.prepare_blocks("", area.address, area.blocks, area.block_bytes)
        remote = self.prepare_blocks(self.peer, address, blocks, area.block_bytes)
        self.requests = self.make_requests("READ", local, self.order, remote, range(blocks))
        return self.explain(self.requests)

    def read_back(self, repeat: int) -> float:
        return self.run_requests(self.requests, repeat)

    def check(self, area: str) -> str:
        """SHA-256 of the file as it lies in the area "written" or "read"."""
        return self._area(area).sha256(self.order, self.length, self.report)

    def block_digests(self, area: str, first: int, count: int) -> bytes:
        return self._area(area).block_digests(self.order[first : first + count])

    def block_bytes(self, area: str, block: int, first: int, count: int) -> bytes:
        return bytes(self._area(area).block(self.order[block])[first : first + count])

    def save(self, path: str) -> None:
        self.written.save(path, self.order, self.length, self.report)

    def _area(self, name: str) -> PagedCache:
        return {"written": self.written, "read": self.read}[name]

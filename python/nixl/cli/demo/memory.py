"""Whether two processes with three copies of the data, or one of them, fit into this machine's memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..text import amount
from .errors import Refused

# Two interpreters with the library; and per block what lists, requests and the permutation take on both sides.
FIXED_BYTES = 256 << 20
BYTES_PER_BLOCK = 512


@dataclass(frozen=True)
class Need:
    prefill_bytes: int
    decode_bytes: int
    other_bytes: int

    @property
    def total(self) -> int:
        return self.prefill_bytes + self.decode_bytes + self.other_bytes


def needed(blocks: int, decode_blocks: int, block_bytes: int) -> Need:
    """`blocks` of prefill, `decode_blocks` in each area of decode; 0 for the role that is on another host."""
    besides = FIXED_BYTES + BYTES_PER_BLOCK * max(blocks, decode_blocks)
    return Need(blocks * block_bytes, 2 * decode_blocks * block_bytes, besides)


def available(meminfo: str = "/proc/meminfo", cgroup: str = "/sys/fs/cgroup") -> int:
    """Bytes that new memory can take without swapping: of the machine, or less where a container has a limit."""
    return min(_of_machine(meminfo), _of_container(cgroup))


def check(need: Need, free: int) -> None:
    """Raises Refused with the numbers if `need` does not fit into `free` bytes."""
    if need.total > free:
        parts = [
            f"{what} {amount(size)}"
            for what, size in (("prefill's cache", need.prefill_bytes), ("decode's two areas", need.decode_bytes))
            if size
        ]
        raise Refused(
            f"too little memory: {amount(need.total)} needed ({', '.join(parts)}, {amount(need.other_bytes)} besides), "
            f"{amount(free)} available"
        )


def _of_machine(meminfo: str) -> int:
    with open(meminfo, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise Refused(f"cannot tell how much memory is free: {meminfo} has no MemAvailable")


def _of_container(cgroup: str) -> int:
    """What the control group that is the root here still allows; no limit is as much as can be."""
    unlimited = 1 << 63
    try:
        with open(f"{cgroup}/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
        if limit == "max":
            return unlimited
        with open(f"{cgroup}/memory.current", encoding="ascii") as file:
            used = int(file.read())
        with open(f"{cgroup}/memory.stat", encoding="ascii") as lines:
            cached = sum(int(line.split()[1]) for line in lines if line.split()[0] in ("inactive_file", "active_file"))
        return max(0, int(limit) - max(0, used - cached))
    except (OSError, ValueError, IndexError):
        return unlimited

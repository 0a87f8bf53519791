"""What the two processes have in common: an agent of the measured module, and memory of a kind."""

import contextlib
import importlib
import re
import signal
from pathlib import Path

import numpy as np

# A transfer or message that takes longer is a failure. The process then ends, which the other one notices.
LIMIT_S = 120


def load(module):
    """The interface of `nixl`, `nixl_cu13`, ..."""
    return importlib.import_module(f"{module}._api")


def new_agent(api, name, backend):
    return api.nixl_agent(name, api.nixl_agent_config(backends=[backend]))


def allocate(module, kind, nbytes):
    """Memory as an array of bytes: "private" as every program has it, "alloc" from the module's own allocator."""
    if kind == "private":
        return np.empty(nbytes, dtype=np.uint8)
    return np.frombuffer(importlib.import_module(module).alloc(nbytes), dtype=np.uint8)


def kinds(module):
    """Kinds of memory that the module knows."""
    return ["private", "alloc"] if hasattr(importlib.import_module(module), "alloc") else ["private"]


def huge_share(data):
    """Which part of an array lies in huge pages, 0 to 1, by what the kernel tells of this process."""
    first, end = data.ctypes.data, data.ctypes.data + data.nbytes
    part, huge = 0.0, 0.0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            low, high = (int(text, 16) for text in mapping.groups())
            # Neighbours can be one mapping; its huge pages are then taken to be spread evenly.
            part = max(0, min(high, end) - max(low, first)) / (high - low)
        elif part and (
            found := re.match(r"(?:AnonHugePages|ShmemPmdMapped|Private_Hugetlb|Shared_Hugetlb): +(\d+)", line)
        ):
            huge += part * int(found[1]) * 1024
    return huge / data.nbytes


def copying_threads():
    """How many threads of this process may have copied: the library's, which it names so, and the one that posts."""
    names = []
    for file in Path("/proc/self/task").glob("*/comm"):
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            names.append(file.read_text().strip())
    return names.count("nixl-copy") + 1


@contextlib.contextmanager
def limited(seconds=LIMIT_S):
    """Ends the process where the body takes longer."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)

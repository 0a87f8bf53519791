"""What the two processes have in common: an agent of the measured module, and memory of a kind."""

import contextlib
import importlib
import signal

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


@contextlib.contextmanager
def limited(seconds=LIMIT_S):
    """Ends the process where the body takes longer."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)

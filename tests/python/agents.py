"""Agents and memory for the tests of the Python package."""

import time

import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

WAIT_SECONDS = 60


def local_agent(name, **config):
    """An agent with the engine that is always there."""
    return nixl_agent(name, nixl_agent_config(**{"backends": ["LOCAL"], "capture_telemetry": True, **config}))


def wait_until(condition, what):
    """The first true value of condition(), which must come in time."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {WAIT_SECONDS} s for {what}"
        time.sleep(0.0005)


def finish(agent, handle):
    """Waits for the end of a posted transfer."""
    wait_until(lambda: agent.check_xfer_state(handle) != "PROC", "the end of a transfer")
    assert agent.check_xfer_state(handle) == "DONE"


class Memory:
    """`count` blocks of `block` bytes in a numpy array, filled with seeded random bytes."""

    def __init__(self, count=16, block=512, seed=0):
        self.count = count
        self.block = block
        self.data = np.random.default_rng(seed).integers(0, 256, count * block, dtype=np.uint8)
        self.addr = self.data.ctypes.data

    @property
    def region(self):
        return (self.addr, self.data.nbytes, 0, "")

    def desc(self, index):
        return (self.addr + index * self.block, self.block, 0)

    def descs(self):
        return [self.desc(index) for index in range(self.count)]

    def bytes_of(self, index):
        return self.data[index * self.block : (index + 1) * self.block].tobytes()


class Device:
    """What is used of a torch.device."""

    def __init__(self, kind, index=None):
        self.type = kind
        self.index = index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """What is used of a torch.Tensor."""

    def __init__(self, memory, device=None, contiguous=True):
        self.memory = memory
        self.device = device or Device("cpu")
        self.contiguous = contiguous

    def data_ptr(self):
        return self.memory.addr

    def numel(self):
        return self.memory.data.nbytes // 4

    def element_size(self):
        return 4

    def get_device(self):
        return -1 if self.device.type == "cpu" else self.device.index

    def is_contiguous(self):
        return self.contiguous


class Pair:
    """Two agents of one process that know each other, with registered memory on both sides."""

    def __init__(self, **config):
        self.a = local_agent("alpha", **config)
        self.b = local_agent("beta", **config)
        self.source = Memory(seed=1)
        self.target = Memory(seed=2)
        self.a_reg = self.a.register_memory([self.source.region], "DRAM")
        self.b_reg = self.b.register_memory([self.target.region], "DRAM")
        self.b.add_remote_agent(self.a.get_agent_metadata())
        self.a.add_remote_agent(self.b.get_agent_metadata())

    def prepared(self):
        local = self.a.prep_xfer_dlist("", self.source.descs(), "DRAM")
        remote = self.a.prep_xfer_dlist("beta", self.target.descs(), "DRAM")
        return local, remote

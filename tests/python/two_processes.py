"""An agent here, another one in a process of its own, and memory on both sides; multiprocessing imports it by name."""

import multiprocessing
import os
import signal
import time

import numpy as np
from agents import WAIT_SECONDS, wait_until
from nixl._api import nixl_agent, nixl_agent_config

FILL = 7  # what the target's memory holds at first

# How an engine is driven: arguments of nixl_agent_config.
MODES = {
    "progress thread": {"enable_prog_thread": True},
    "no thread": {"enable_prog_thread": False},
    "pool": {"enable_prog_thread": False, "num_threads": 4},
}


class TwoProcesses:
    """`agent` and `memory` here; `ask` has the other process run a function of this module.

    Who makes it sets the environment of both: lanes.LANES.
    """

    def __init__(self, nbytes, config=None, their_config=None):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, nbytes, their_config or {}), daemon=True)
        self._process.start()
        theirs.close()
        self.agent = nixl_agent("initiator", nixl_agent_config(backends=["UCX"], **(config or {})))
        self.memory = np.zeros(nbytes, np.uint8)
        self.agent.register_memory([(self.memory.ctypes.data, nbytes, 0, "")], "DRAM")
        self.pid, metadata, self.there = self._answer()
        self.peer = self.agent.add_remote_agent(metadata)
        self.ask("meet", self.agent.get_agent_metadata())

    def _answer(self):
        assert self._pipe.poll(WAIT_SECONDS), "the other process does not answer"
        return self._pipe.recv()

    def begin(self, *command):
        self._pipe.send(command)

    def answered(self):
        return self._pipe.poll(0)

    def end(self):
        return self._answer()

    def ask(self, *command):
        self.begin(*command)
        return self.end()

    def request(self, operation, nbytes, count=1, message=b""):
        """Moves the first bytes of both memories, in `count` blocks of which none continues the one before."""
        each = nbytes // count
        order = np.arange(count, dtype=np.uint64)

        def rows(start, places):
            table = np.zeros((count, 3), np.uint64)
            table[:, 0] = start + places * each
            table[:, 1] = each
            return self.agent.get_xfer_descs(table, "DRAM")

        return self.agent.initialize_xfer(
            operation, rows(self.memory.ctypes.data, order), rows(self.there, order[::-1]), self.peer, message
        )

    def run(self, handle):
        """Posts a request and returns its last state."""
        self.agent.transfer(handle)
        wait_until(lambda: self.agent.check_xfer_state(handle) != "PROC", "the end of a transfer")
        return self.agent.check_xfer_state(handle)

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.join()

    def close(self):
        if self._process.is_alive():
            self.resume()
        self.kill()


def _serve(pipe, nbytes, config):
    agent = nixl_agent("target", nixl_agent_config(backends=["UCX"], **config))
    memory = np.full(nbytes, FILL, np.uint8)
    agent.register_memory([(memory.ctypes.data, nbytes, 0, "")], "DRAM")
    pipe.send((os.getpid(), agent.get_agent_metadata(), memory.ctypes.data))
    while True:
        name, *arguments = pipe.recv()
        pipe.send(globals()[name](agent, memory, *arguments))


def meet(agent, memory, metadata):
    agent.add_remote_agent(metadata)


def contents(agent, memory):
    """How many bytes of each value the target holds."""
    values, counts = np.unique(memory, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _take(agent, held):
    for messages in agent.get_new_notifs().values():
        held.extend((time.monotonic(), message) for message in messages)
    return held


def messages(agent, memory, count, pause=0.0):
    """The next `count` messages, as (time, message); looks every `pause` seconds."""
    held = []
    end = time.monotonic() + WAIT_SECONDS
    while len(_take(agent, held)) < count and time.monotonic() < end:
        if pause:
            time.sleep(pause)
    return held


def stale_blocks(agent, memory, block):
    """Waits for a message of one byte; the blocks whose last byte is not that byte at that moment."""
    while not (held := _take(agent, [])):
        pass
    last = memory[block - 1 :: block]
    return len(held), int((last != held[0][1][0]).sum())


def deregister(agent, memory):
    agent.deregister_memory(agent.get_reg_descs([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM"))


def outcomes(agent, memory, count, seconds):
    """Messages and failures as they come, until there are `count` of both, or the time is up."""
    messages, failures = [], []
    end = time.monotonic() + seconds
    while len(messages) + len(failures) < count and time.monotonic() < end:
        for held in agent.wait_notif(timeout=0.01).values():
            messages += held
        failures += [(failed.peer, failed.message, failed.why) for failed in agent.failed_notifs()]
    return messages, failures

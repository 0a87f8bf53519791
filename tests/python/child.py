"""A second process for tests, which does what it is told: see peer_process."""

import multiprocessing
import os
import signal

import peer_process
from agents import WAIT_SECONDS, Memory, local_agent


class Child:
    """A spawned process with an agent that knows ours and is known by it. `config` is for both agents."""

    def __init__(self, block, count, **config):
        self.block, self.count = block, count
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        # Spawned: it has the environment of this moment.
        arguments = (theirs, block, count, config)
        self.process = context.Process(target=peer_process.serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.memory = Memory(count, block, seed=1)
        self.agent = local_agent("parent", **config)
        self.agent.register_memory([self.memory.region], "DRAM")
        metadata, self.addr, self.initial = self.receive()
        self.name = self.agent.add_remote_agent(metadata)
        self.pipe.send(self.agent.get_agent_metadata())

    def receive(self):
        assert self.pipe.poll(WAIT_SECONDS), "the other process does not answer"
        return self.pipe.recv()

    def ask(self, *command):
        self.pipe.send(command)
        return self.receive()

    def prepared(self):
        remote = [(self.addr + i * self.block, self.block, 0) for i in range(self.count)]
        return (
            self.agent.prep_xfer_dlist("", self.memory.descs(), "DRAM"),
            self.agent.prep_xfer_dlist(self.name, remote, "DRAM"),
        )

    def request(self, operation="WRITE", blocks=None, message=b""):
        """Of all blocks, or of some, each to or from the same place."""
        local, remote = self.prepared()
        indices = list(range(self.count)) if blocks is None else list(blocks)
        return self.agent.make_prepped_xfer(operation, local, indices, remote, indices, message)

    def stop(self):
        """No thread of it runs any more when this returns."""
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        self.go_on()
        self.pipe.send(None)
        self.process.join(WAIT_SECONDS)
        assert self.process.exitcode == 0

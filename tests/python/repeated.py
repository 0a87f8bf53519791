"""A program that does one thing COUNT times and ends holding what it held after the first half: python repeated.py
WHAT BACKEND COUNT. It and its helper process may have 1,024 descriptors each."""

import ctypes
import multiprocessing
import os
import resource
import sys
import time

from agents import WAIT_SECONDS, Memory, finish, local_agent, wait_until

LIBC = ctypes.CDLL(None)
DESCRIPTORS = 1024
MIB = 1 << 20
GROWTH = 6 * MIB  # it goes up and down by half of that, with agents that hold a megabyte and more each
TOGETHER = 8  # peers that are there at one time


def limit_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def held():
    LIBC.malloc_trim(0)
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {name: len(os.listdir(f"/proc/self/{name}")) for name in ("fd", "task")} | {"resident": resident}


def assert_flat(before, after, whose):
    print(whose, before, after)
    assert after["fd"] <= before["fd"] and after["task"] <= before["task"], whose
    assert after["resident"] <= before["resident"] + GROWTH, whose


class Helper:
    """Another process, which runs functions of this module on what it keeps."""

    def __init__(self, backend):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, backend), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, *command):
        self.pipe.send(command)
        assert self.pipe.poll(WAIT_SECONDS), "the helper does not answer"
        return self.pipe.recv()


class Kept:
    """What a helper has."""

    def __init__(self, backend):
        self.backend = backend
        self.agents = {}
        self.memory = Memory(seed=2)


def serve(pipe, backend):
    limit_descriptors()
    kept = Kept(backend)
    while True:
        name, *arguments = pipe.recv()
        pipe.send(globals()[name](kept, *arguments))


def appear(kept, name, registered=True):
    """A new agent; what a peer needs."""
    kept.agents[name] = agent = local_agent(name, backends=[kept.backend])
    if registered:
        agent.register_memory([kept.memory.region], "DRAM")
    return agent.get_agent_metadata(), kept.memory.addr


def vanish(kept, name):
    del kept.agents[name]


def register_anew(kept, name, old):
    agent = kept.agents[name]
    if old:
        agent.deregister_memory(agent.get_reg_descs([kept.memory.region], "DRAM"))
    agent.register_memory([kept.memory.region], "DRAM")
    return agent.get_agent_metadata()


def holds(kept):
    return held()


class Near:
    def __init__(self, backend):
        self.helper = Helper(backend)
        self.agent = local_agent("near", backends=[backend])
        self.memory = Memory(seed=1)
        self.agent.register_memory([self.memory.region], "DRAM")
        self.gone = set()

    def use(self, name, addr):
        """A transfer with a message."""
        remote = self.agent.get_xfer_descs([(addr, self.memory.data.nbytes, 0)], "DRAM")
        local = self.agent.get_xfer_descs([(self.memory.addr, self.memory.data.nbytes, 0)], "DRAM")
        with self.agent.initialize_xfer("WRITE", local, remote, name, b"message") as handle:
            self.agent.transfer(handle)
            finish(self.agent, handle)

    def lost(self, name):
        self.gone |= {event.peer for event in self.agent.peer_events() if event.kind == "lost"}
        return name in self.gone

    def both(self):
        return held(), self.helper.ask("holds")


def peers(near, count):
    """Peers that come and go: every other one is forgotten first, the others are lost."""

    def bye(number):
        name = f"peer {number}"
        if number % 2:
            near.agent.remove_remote_agent(name)
        near.helper.ask("vanish", name)
        if number % 2 == 0:
            wait_until(lambda: near.lost(name), f"the loss of {name}")

    for number in range(count):
        metadata, addr = near.helper.ask("appear", f"peer {number}")
        near.agent.add_remote_agent(metadata)
        near.use(f"peer {number}", addr)
        if number >= TOGETHER:
            bye(number - TOGETHER)
        yield
    for number in range(count - TOGETHER, count):
        bye(number)


def metadata(near, count):
    """A peer that registers its memory anew, and tells so."""
    blob, addr = near.helper.ask("appear", "far", False)
    near.agent.add_remote_agent(blob)
    for number in range(count):
        near.agent.add_remote_agent(near.helper.ask("register_anew", "far", number > 0))
        near.use("far", addr)
        yield


def main(what, backend, count):
    limit_descriptors()
    near = Near(backend)
    if what == "peers":
        for _ in peers(near, 2 * TOGETHER):  # whatever is made at first use
            pass
    start = near.both()
    began = time.monotonic()
    for number, _ in enumerate(globals()[what](near, count)):
        if number == count // 2:
            before = near.both()
    after = near.both()
    for whose, early, late in zip(("here", "the helper"), before, after, strict=True):
        assert_flat(early, late, whose)
    if what == "peers":
        # Of a peer that was forgotten a connection is kept until it is seen to have ended.
        wait_until(
            lambda: all(late["fd"] <= early["fd"] for early, late in zip(start, near.both(), strict=True)),
            "descriptors as at the start",
        )
    print(f"{what} {backend} {count}: {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

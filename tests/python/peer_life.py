"""Processes with an agent each, which tests tell what to do and kill; multiprocessing imports it there by name."""

import ctypes
import multiprocessing
import os
import signal
import zlib

from agents import WAIT_SECONDS, Memory, finish, local_agent
from nixl import _bindings as nixlBind

BLOCK = 4096
COUNT = 16


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def sums(memory):
    return [zlib.crc32(memory.data[i * memory.block : (i + 1) * memory.block]) for i in range(memory.count)]


def enter(namespace):
    """Has this process, which has no other thread yet, use the network of a namespace, as ip netns exec does."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(function, *arguments):
        if function(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"{function.__name__}: {namespace}")

    newns, newnet, recursive_slave, detach = 0x20000, 0x40000000, 0x84000, 2
    with open(f"/run/netns/{namespace}") as file:
        call(libc.setns, file.fileno(), newnet)
    # /sys lists the devices of the namespace in which it was mounted.
    call(libc.unshare, newns)
    call(libc.mount, b"none", b"/", None, recursive_slave, None)
    call(libc.umount2, b"/sys", detach)
    call(libc.mount, b"sysfs", b"/sys", b"sysfs", 0, None)


def serve(pipe, name, backend, seed, block, namespace):
    if namespace:
        enter(namespace)
    agent = local_agent(name, backends=[backend])
    memory = Memory(COUNT, block, seed)
    registered = {}
    while True:
        what, *arguments = pipe.recv()
        if what == "register":
            first, count = arguments
            registered[first, count] = agent.register_memory([(memory.desc(first)[0], count * block, 0, "")], "DRAM")
            pipe.send(memory.addr)
        elif what == "deregister":
            pipe.send(agent.deregister_memory(registered.pop(tuple(arguments))))
        elif what == "metadata":
            pipe.send(agent.get_agent_metadata())
        elif what == "partial":
            connections, *ranges = arguments
            descs = nixlBind.nixlRegDList(nixlBind.DRAM_SEG)
            for first, count in ranges:
                descs.addDesc((memory.desc(first)[0], count * block, 0, ""))
            pipe.send(agent.get_partial_agent_metadata(descs, connections))
        elif what == "content":
            pipe.send(memory.data.tobytes())
        elif what == "notifs":
            pipe.send({sender: list(messages) for sender, messages in agent.get_new_notifs().items()})
        elif what == "failed":
            pipe.send([(failed.peer, failed.message, failed.why) for failed in agent.failed_notifs()])
        elif what == "learn":
            pipe.send(agent.add_remote_agent(*arguments))
        elif what == "notify":
            pipe.send(agent.send_notif(*arguments))
        elif what == "write":  # all of the memory to the address, until it has ended
            peer, addr = arguments
            local = agent.get_xfer_descs(memory.descs(), "DRAM")
            remote = agent.get_xfer_descs([(addr + i * block, block, 0) for i in range(COUNT)], "DRAM")
            handle = agent.initialize_xfer("WRITE", local, remote, peer)
            agent.transfer(handle)
            finish(agent, handle)
            pipe.send("DONE")
        elif what == "sums":
            pipe.send(sums(memory))
        elif what == "end":
            pipe.send(None)
            return


class Far:
    """A process with an agent `name` and COUNT blocks of memory."""

    def __init__(self, name, backend, seed=2, block=BLOCK, namespace=None):
        context = multiprocessing.get_context("spawn")
        self.name, self.block = name, block
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, backend, seed, block, namespace), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, *command):
        self.tell(*command)
        return self.answer()

    def tell(self, *command):
        """Without waiting for the answer()."""
        self.pipe.send(command)

    def answer(self):
        assert self.pipe.poll(WAIT_SECONDS), "the other process does not answer"
        return self.pipe.recv()

    def register(self, first=0, count=COUNT):
        self.addr = self.ask("register", first, count)

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # all of its threads

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        """And forgets it; once is enough."""
        if self.pipe.closed:
            return
        self.process.kill()
        self.process.join(WAIT_SECONDS)
        self.process.close()
        self.pipe.close()

    def blocks(self, first=0, count=COUNT):
        return [(self.addr + (first + i) * self.block, self.block, 0) for i in range(count)]


class Near:
    """The agent of the test itself."""

    def __init__(self, backend, name="near", block=BLOCK, **config):
        self.block = block
        self.agent = local_agent(name, backends=[backend], **config)
        self.memory = Memory(COUNT, block, seed=1)
        self.agent.register_memory([self.memory.region], "DRAM")
        self.seen = []

    def learn(self, far):
        assert self.agent.add_remote_agent(far.ask("metadata")) == far.name.encode()

    def write(self, far, first=0, count=COUNT):
        """A request for these blocks."""
        local = self.agent.get_xfer_descs(self.memory.descs()[first : first + count], "DRAM")
        return self.agent.initialize_xfer(
            "WRITE", local, self.agent.get_xfer_descs(far.blocks(first, count), "DRAM"), far.name
        )

    def run(self, handle):
        self.agent.transfer(handle)
        finish(self.agent, handle)

    def wrote(self, far, first=0, count=COUNT):
        """Whether these blocks, and no others, hold what this side has."""
        same = [ours == theirs for ours, theirs in zip(sums(self.memory), far.ask("sums"), strict=True)]
        return same == [first <= i < first + count for i in range(COUNT)]

    def events(self, name):
        """All events of a peer until now, as (kind, why)."""
        self.seen += self.agent.peer_events()
        return [(event.kind, event.why) for event in self.seen if event.peer == name]

    def kinds(self, name):
        return [kind for kind, _ in self.events(name)]

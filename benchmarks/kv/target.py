"""The process at the other end: owns memory, looks for notifications now and then, does what it is told.

Commands are tuples; each has one answer.
"""

import time
from multiprocessing.connection import Connection

from . import blocks
from .side import allocate, huge_share, limited, load, new_agent

# How often a server looks for notifications between other work.
LOOK_S = 0.0005


def serve(module, backend, nbytes, kind, descriptor):
    """descriptor: of the connection to the initiator; returns when that is closed."""
    api = load(module)
    Target(new_agent(api, "target", backend), allocate(module, kind, nbytes), Connection(descriptor)).serve()


class Target:
    def __init__(self, agent, data, pipe):
        self.agent = agent
        self.data = data
        self.pipe = pipe
        blocks.fill(data, blocks.REMOTE)
        agent.register_memory([(data.ctypes.data, data.nbytes, 0, "")], "DRAM")
        pipe.send((agent.get_agent_metadata(), data.ctypes.data, huge_share(data)))

    def serve(self):
        busy = False
        while True:
            # Idle, it costs the others nothing: they are measured in turns on the same cores.
            if busy and not self.pipe.poll(0):
                self.agent.get_new_notifs()
                time.sleep(LOOK_S)
                continue
            try:
                name, *arguments = self.pipe.recv()
            except EOFError:
                return
            if name == "busy":
                (busy,) = arguments
                self.pipe.send(None)
                continue
            with limited():
                self.pipe.send(getattr(self, name)(*arguments))

    def meet(self, metadata):
        self.agent.add_remote_agent(metadata)

    def fill(self):
        blocks.fill(self.data, blocks.REMOTE)

    def wrong_block(self, block, at, source):
        return blocks.wrong_block(self.data, blocks.REMOTE, block, at, source)

    def wrong_copy(self, block, at, source):
        return blocks.wrong_copy(self.data, blocks.REMOTE, block, at, source)

    def echo(self):
        """Answers every message of the initiator until one says to stop."""
        self.pipe.send("ready")
        while True:
            for message in self._messages():
                if message == b"stop":
                    return
                self.agent.send_notif("initiator", b"pong")

    def count(self, expected):
        """Returns when that many messages have come."""
        self.pipe.send("ready")
        got = 0
        while got < expected:
            got += len(self._messages())
        return got

    def _messages(self):
        return [message for messages in self.agent.get_new_notifs().values() for message in messages]

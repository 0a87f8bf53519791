"""LMCache's transfer channel between two processes."""

import threading

import numpy as np
from agents import Memory, finish, wait_until
from nixl._api import nixl_agent, nixl_agent_config, nixl_prepped_dlist_handle, nixl_xfer_handle

PAGE = 64 << 10
PAGES = 64


class TransferChannel:
    """One paged buffer, whose pages are prepared as a list for each side."""

    def __init__(self, name, seed):
        self.agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
        self.memory = Memory(PAGES, PAGE, seed)
        self.regions = self.agent.register_memory([(self.memory.addr, PAGES * PAGE, 0, "")], mem_type="cpu")
        self.pages = self.agent.get_xfer_descs(self.memory.descs(), mem_type="cpu")
        # The raw list of tuples is taken as well.
        self.local = self.agent.prep_xfer_dlist("", self.memory.descs(), mem_type="cpu")
        assert isinstance(self.local, nixl_prepped_dlist_handle)

    def introduction(self):
        return self.agent.get_agent_metadata(), self.agent.get_serialized_descs(self.pages)

    def meet(self, introduction):
        metadata, serialized = introduction
        self.peer = self.agent.add_remote_agent(metadata)
        assert self.agent.add_remote_agent(metadata) == self.peer
        self.remote = self.agent.prep_xfer_dlist(self.peer, self.agent.deserialize_descs(serialized))

    def run(self, operation, mine, theirs):
        """Posts here; another thread waits for the end and releases."""
        handle = self.agent.make_prepped_xfer(operation, self.local, mine, self.remote, theirs)
        assert isinstance(handle, nixl_xfer_handle)
        self.agent.transfer(handle)
        failures = []

        def complete():
            try:
                finish(self.agent, handle)
                self.agent.release_xfer_handle(handle)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=complete)
        thread.start()
        thread.join()
        assert not failures, failures

    def close(self):
        self.agent.release_dlist_handle(self.remote)
        self.agent.remove_remote_agent(self.peer)
        self.agent.release_dlist_handle(self.local)
        self.agent.deregister_memory(self.regions)


def sender(channel):
    mine = TransferChannel("sender", 1)
    channel.send(mine.introduction())
    mine.meet(channel.receive())
    mine.run("WRITE", [5, 6, 7, 60], [1, 0, 2, 63])
    mine.agent.send_notif(mine.peer, notif_msg=b"written")
    channel.send([mine.memory.bytes_of(page) for page in (5, 6, 7, 60)])
    wanted = channel.receive()
    mine.run("READ", np.arange(8, 12), np.arange(20, 24, dtype=np.int32))
    assert [mine.memory.bytes_of(page) for page in range(8, 12)] == wanted
    # The peer restarted with other pages: the same name is met again.
    mine.agent.release_dlist_handle(mine.remote)
    mine.agent.remove_remote_agent(mine.peer)
    channel.send("again")
    mine.meet(channel.receive())
    mine.run("WRITE", [40], [41])
    channel.send(mine.memory.bytes_of(40))
    assert channel.receive() == "bye"
    mine.close()


def receiver(channel):
    mine = TransferChannel("receiver", 2)
    introduction = channel.receive()
    channel.send(mine.introduction())
    mine.meet(introduction)
    assert wait_until(mine.agent.get_new_notifs, "the message") == {"sender": [b"written"]}
    assert channel.receive() == [mine.memory.bytes_of(page) for page in (1, 0, 2, 63)]
    channel.send([mine.memory.bytes_of(page) for page in range(20, 24)])
    assert channel.receive() == "again"
    channel.send(mine.introduction())
    assert channel.receive() == mine.memory.bytes_of(41)
    channel.send("bye")
    mine.close()


def test_the_transfer_channel(roles):
    roles(sender, receiver)

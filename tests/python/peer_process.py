"""The other process of a child.Child; multiprocessing imports it there by name."""

import time

from agents import Memory, finish, local_agent, wait_until


def serve(pipe, block, count, config):
    """Sends what a peer needs, then does what it is told and answers, until it is told nothing more."""
    agent = local_agent("child", **config)
    agent.fileno()  # it takes part in transfers though it makes no call
    memory = Memory(count, block, seed=2)
    agent.register_memory([memory.region], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.addr, memory.data.tobytes()))
    parent = agent.add_remote_agent(pipe.recv())
    while True:
        command = pipe.recv()
        if command is None:
            return
        pipe.send(globals()[command[0]](agent, parent, memory, *command[1:]))


def content(agent, parent, memory):
    return memory.data.tobytes()


def notifications(agent, parent, memory, count):
    """The first `count` messages of the parent."""
    wait_until(lambda: len(agent.update_notifs().get("parent", [])) >= count, "notifications")
    return agent.notifs.pop("parent")


def notify(agent, parent, memory, message):
    agent.send_notif(parent, message)


def notify_later(agent, parent, memory, seconds, messages):
    """In a moment, when the parent sleeps."""
    time.sleep(seconds)
    for message in messages:
        agent.send_notif(parent, message)


def answer(agent, parent, memory, count):
    """Sends `count` messages of the parent back, each when it comes."""
    for _ in range(count):
        for messages in agent.wait_notif().values():
            for message in messages:
                agent.send_notif(parent, message)


def read_from_parent(agent, parent, memory, descs):
    """Reads the parent's blocks into the first blocks of this process."""
    local = agent.get_xfer_descs(memory.descs()[: len(descs)], "DRAM")
    handle = agent.initialize_xfer("READ", local, agent.get_xfer_descs(descs, "DRAM"), parent, b"read")
    agent.transfer(handle)
    finish(agent, handle)
    return memory.data.tobytes()

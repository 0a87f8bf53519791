"""Two processes: one WRITEs chosen blocks into the other's memory, which is told when they are there.

Run: ./dev python examples/python/two_processes.py
"""

import array
import ctypes
import multiprocessing
import os
import time

from nixl import nixl_agent, nixl_agent_config

BLOCK_BYTES = 16384
BLOCKS = 256


class Buffer:
    """Host memory and an agent that has it registered."""

    def __init__(self, name):
        self.memory = bytearray(BLOCKS * BLOCK_BYTES)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.agent = nixl_agent(name, nixl_agent_config(backends=["LOCAL"]))
        self.agent.register_memory([(self.address, len(self.memory), 0, "")], "DRAM")

    def block(self, index):
        return bytes(self.memory[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES])

    def prepare(self, owner, address):
        """All blocks at `address` in the memory of `owner` ("": this process), for any number of requests."""
        blocks = [(address + i * BLOCK_BYTES, BLOCK_BYTES, 0) for i in range(BLOCKS)]
        return self.agent.prep_xfer_dlist(owner, blocks, "DRAM")


def receive(pipe):
    """The other process: offers its memory, waits for the message, sends back what it got."""
    decode = Buffer("decode")
    pipe.send((decode.agent.get_agent_metadata(), decode.address))
    places = pipe.recv()
    while b"blocks are there" not in decode.agent.get_new_notifs().get("prefill", []):
        time.sleep(0.0001)
    pipe.send([decode.block(place) for place in places])


def main():
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=receive, args=(theirs,), daemon=True)
    process.start()

    prefill = Buffer("prefill")
    prefill.memory[:] = os.urandom(len(prefill.memory))
    # How metadata travels is up to the program: here a pipe, elsewhere a socket or a store.
    metadata, address = pipe.recv()
    peer = prefill.agent.add_remote_agent(metadata)
    local, remote = prefill.prepare("", prefill.address), prefill.prepare(peer, address)

    # Every third block, to places in the opposite order.
    chosen = array.array("i", range(0, BLOCKS, 3))
    places = array.array("i", [BLOCKS - 1 - block for block in chosen])
    request = prefill.agent.make_prepped_xfer("WRITE", local, chosen, remote, places, b"blocks are there")
    pipe.send(list(places))
    state = prefill.agent.transfer(request)
    while state == "PROC":
        state = prefill.agent.check_xfer_state(request)
    print(f"{len(chosen)} blocks: {state}")
    print(prefill.agent.explain(request))

    assert pipe.recv() == [prefill.block(block) for block in chosen], "other bytes arrived"
    print("verified")
    process.join()


if __name__ == "__main__":
    main()

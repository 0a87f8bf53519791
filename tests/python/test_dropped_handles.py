"""Handles that nobody holds any more, in every state, and an interpreter that ends with some alive: C11."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, os, sys
import numpy as np
from nixl._api import nixl_agent, nixl_agent_config

backend, count, ending = sys.argv[1], int(sys.argv[2]), sys.argv[3]
here, there = (nixl_agent(name, nixl_agent_config(backends=[backend])) for name in ("here", "there"))
nbytes = 4 << 20
source, sink = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
here.register_memory([(source.ctypes.data, nbytes, 0, "")], "DRAM")
there.register_memory([(sink.ctypes.data, nbytes, 0, "")], "DRAM")
peer = here.add_remote_agent(there.get_agent_metadata())


def request(size):
    descs = [here.get_xfer_descs([(memory.ctypes.data, size, 0)], "DRAM") for memory in (source, sink)]
    return here.initialize_xfer("WRITE", *descs, peer)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


kept = []
before = 0
for number in range(count):
    handle = request(nbytes if number % 4 == 3 else 4096)
    if number % 4 > 0:
        here.transfer(handle)
    if number % 4 == 2:
        while here.check_xfer_state(handle) == "PROC":
            pass
    if number % 100 == 99:
        kept.append(handle)
    handle = None
    if number % 50 == 0:
        gc.collect()
    if number == count // 2:
        before = resident()
gc.collect()
grown = resident() - before
assert grown < 20 << 20, grown
print("still alive:", len(kept))
if ending == "agents first":
    del here, there
elif ending == "handles first":
    kept.clear()
elif ending == "cycle":
    kept.append(kept)
    there.me = there
    here.me = (here, kept)
    del here, there, kept
"""


@pytest.mark.parametrize("backend", ["LOCAL", "UCX"])
@pytest.mark.parametrize("ending", ["as it comes", "agents first", "handles first", "cycle"])
def test_dropped_handles_leave_no_word_and_no_memory(backend, ending):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM, backend, "1000", ending],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "still alive: 10\n"

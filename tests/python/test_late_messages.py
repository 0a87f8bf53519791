"""A message of a transfer that is still on its way when the request, and its peer's record, are gone."""

import os
import subprocess
import sys

INITIATOR = """
import os, signal, subprocess, sys, time
import numpy as np
from nixl import nixl_agent, nixl_agent_config

def agent(name, workers):
    agent = nixl_agent(name, nixl_agent_config(backends=[]))
    agent.create_backend("UCX", {"num_workers": str(workers)})
    memory = np.zeros(1 << 20, dtype=np.uint8)
    agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    return agent, memory

if sys.argv[1:] == ["target"]:
    target, memory = agent("target", 1)
    print(target.get_agent_metadata().hex(), memory.ctypes.data, flush=True)
    sys.stdin.read()
    os._exit(0)

initiator, memory = agent("initiator", 2)
message = b"x" * (48 << 20)  # more than sockets hold
for round in range(3):
    process = subprocess.Popen([sys.executable, __file__, "target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    metadata, address = process.stdout.readline().split()
    initiator.add_remote_agent(bytes.fromhex(metadata.decode()))
    near = initiator.get_xfer_descs([(memory.ctypes.data, 4096, 0)], "DRAM")
    far = initiator.get_xfer_descs([(int(address), 4096, 0)], "DRAM")
    for _ in range(2):  # once on each worker, which connects both
        handle = initiator.initialize_xfer("WRITE", near, far, "target")
        initiator.transfer(handle)
        while initiator.check_xfer_state(handle) == "PROC":
            pass
        initiator.release_xfer_handle(handle)
    handles = [initiator.initialize_xfer("WRITE", near, far, "target", message) for _ in range(2)]
    for handle in handles:
        initiator.transfer(handle)
    time.sleep(0.02)  # the data is moved, the messages are on their way
    os.kill(process.pid, signal.SIGSTOP)
    for handle in handles:
        try:
            initiator.release_xfer_handle(handle)
        except Exception as error:
            print(error, file=sys.stderr)
    del handle, handles, near, far
    initiator.remove_remote_agent("target")
    process.kill()
    process.wait()
    for _ in range(1000):
        initiator.get_new_notifs()
print("done", flush=True)
os._exit(0)
"""


def test_a_late_message_touches_nothing_that_is_gone(tmp_path):
    program = tmp_path / "initiator.py"
    program.write_text(INITIATOR)
    environment = os.environ | {
        "UCX_TLS": "tcp",
        "UCX_NET_DEVICES": "lo",
        "NIXL_LOCAL": "off",
        # Freed memory is overwritten at once.
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=165",
    }
    run = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr

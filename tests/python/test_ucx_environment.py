"""Variables of UCX that a program sets after it imported the package, as vLLM does."""

import subprocess
import sys

import pytest
from demo_runs import environment

PROGRAM = """
import ctypes, os, nixl
os.environ.update({variables!r})
near, far = nixl.nixl_agent("near"), nixl.nixl_agent("far")
buffers = [ctypes.create_string_buffer(b"bytes", 100), ctypes.create_string_buffer(100)]
mine, theirs = (
    agent.register_memory([(ctypes.addressof(buffer), 100, 0, "")], "DRAM")
    for agent, buffer in zip((near, far), buffers)
)
near.add_remote_agent(far.get_agent_metadata())
request = near.initialize_xfer("WRITE", mine.trim(), theirs.trim(), "far")
near.transfer(request)
while near.check_xfer_state(request) == "PROC":
    pass
assert buffers[1].value == b"bytes"
print(near.explain(request).path)
os._exit(0)
"""


def run(**variables):
    program = PROGRAM.format(variables=variables)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment()
    )


def test_transports_are_those_of_the_variable():
    done = run(UCX_TLS="tcp", UCX_NET_DEVICES="lo")
    assert done.returncode == 0, done.stderr
    assert "tcp/lo" in done.stdout


@pytest.mark.parametrize("name", ["UCX_RCACHE_MAX_UNRELEASED", "UCX_RNDV_THRESH"])
def test_a_value_that_ucx_cannot_read_is_refused(name):
    done = run(**{name: "much"})
    assert done.returncode != 0
    assert "NIXL_ERR_INVALID_PARAM" in done.stderr and "environment" in done.stderr
    assert name.removeprefix("UCX_") in done.stderr


def test_vllms_value_is_taken():
    done = run(UCX_RCACHE_MAX_UNRELEASED="1024", UCX_TLS="tcp", UCX_NET_DEVICES="lo")
    assert done.returncode == 0, done.stderr

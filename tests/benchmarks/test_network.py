"""Two namespaces and the cable between them; needs root, as the benchmark does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driver.network import ADDRESSES, Unavailable, veth

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

SERVER = """
import socket
with socket.create_server(("", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    print(listening.accept()[1][0], flush=True)
"""


def namespaces():
    return {line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()}


@pytest.fixture
def cable():
    before = namespaces()
    try:
        with veth() as network:
            yield network
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert namespaces() == before


def test_both_ends_reach_each_other_and_nothing_else(cable):
    server = subprocess.Popen([*cable.there, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    client = f"import socket; socket.create_connection(({cable.address!r}, {port}), 30)"
    subprocess.run([*cable.here, sys.executable, "-c", client], check=True)
    assert server.communicate(timeout=30)[0].strip() == ADDRESSES[0]
    devices = subprocess.check_output([*cable.here, "ls", "/sys/class/net"], text=True).split()
    assert set(devices) - {"lo"} >= {cable.environment["UCX_NET_DEVICES"]}
    assert "eth0" not in devices


def test_what_cannot_be_set_up_leaves_what_was_there(cable):
    before = namespaces()
    # The fixture's own have the names that a second pair would get.
    with pytest.raises(Unavailable, match="File exists"), veth():
        pass
    assert namespaces() == before


PROGRAM = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from driver.network import veth
with veth():
    {body}
"""


def ended_within(body):
    """Runs a program whose namespaces are there when `body` runs; returns its number."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM.format(body=body), BENCHMARKS], stderr=subprocess.DEVNULL)
    process.wait(60)
    return process.pid


def test_an_error_leaves_no_namespace(cable):
    assert not any(str(ended_within("raise ValueError")) in name for name in namespaces())


def test_what_a_killed_program_left_is_removed_by_the_next():
    before = namespaces()
    pid = ended_within("os.kill(os.getpid(), signal.SIGKILL)")
    left = namespaces() - before
    if not left:
        pytest.skip("no network namespaces here")
    assert left == {f"nixl-bench-{pid}-a", f"nixl-bench-{pid}-b"}
    with veth():
        assert not left & namespaces()
    assert namespaces() == before


def test_without_the_program_ip_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="ip of iproute2 cannot be run"), veth():
        pass


@pytest.mark.parametrize("with_ip", [True, False], ids=["two namespaces", "no ip"])
def test_benchmark_measures_over_the_cable_or_says_why_not(tmp_path, with_ip):
    environment = os.environ | ({} if with_ip else {"PATH": "/nowhere"})
    options = ["--quick", "--mib", "8", "--rounds", "1", "--filter", " 64 KiB, TCP", "--output", "out"]
    path = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "bench.py", "tcp", *options, "--ours-path", path],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    skipped = "cases over veth are skipped: "
    if with_ip and skipped not in done.stderr:
        assert "128 x 64 KiB, TCP over veth: WRITE" in done.stdout
        assert "- tcp, veth: ours: UCX, tcp/nixl0" in done.stdout
    else:
        assert with_ip or f"{skipped}ip of iproute2 cannot be run" in done.stderr
        assert "over veth" not in done.stdout
    assert "128 x 64 KiB, TCP: WRITE" in done.stdout


def test_benchmark_that_is_told_to_end_takes_everything_back(tmp_path):
    """SIGTERM while it measures over the cable."""
    before = namespaces()
    command = [sys.executable, BENCHMARKS / "bench.py", "tcp", "--quick", "--mib", "8", "--rounds", "10000"]
    command += ["--filter", "64 KiB, TCP over veth", "--ours-path", os.environ.get("PYTHONPATH", ""), "--output", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
    try:
        for line in process.stderr:
            if "skipped" in line:
                pytest.skip(line)
            if "over veth" in line:
                break
        assert namespaces() > before
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()
    assert namespaces() == before

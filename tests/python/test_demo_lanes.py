"""`nixl demo` over UCX: TCP and shared memory of one host, and two hosts, which are network namespaces."""

import contextlib
import json
import os
import subprocess
import time

import pytest
from demo_runs import (
    ENOUGH_S,
    FOR_EVER,
    LOCAL,
    TCP,
    command,
    complaint,
    environment,
    last_line,
    result,
)

# Without their error handling UCX does not use them where it has to notice the death of a peer.
SHARED_MEMORY = {
    "UCX_TLS": "tcp,posix,sysv,cma,self", "UCX_POSIX_ERROR_HANDLING": "y", "UCX_SYSV_ERROR_HANDLING": "y",
}  # fmt: skip
LANES = pytest.mark.parametrize(
    "lane, names", [(TCP, ["tcp/lo"]), (SHARED_MEMORY, ["posix/", "sysv/", "cma/"])], ids=["tcp", "shared memory"]
)


@pytest.fixture
def large_file(tmp_path):
    """1 GB in a full run."""
    path = tmp_path / "file"
    piece = os.urandom(10_000_001)
    with open(path, "wb") as file:
        for i in range(100 if os.environ.get("TEST_FULL") else 5):
            file.write(bytes([i]) + piece[1:])
    return path


def same_content(a, b):
    return subprocess.run(["cmp", a, b], check=False).returncode == 0


def assert_went_by_ucx(told, *lanes):
    """Over one of `lanes`, at least."""
    assert told["verified"] is True and told["backend"] == "UCX"
    for path in (told["write_path"], told["read_path"]):
        assert path["backend"] == "UCX"
        assert any(lane in path["path"] for lane in lanes), path


@LANES
def test_ucx_between_two_processes(tmp_path, large_file, lane, names):
    told = result(large_file, "--backend", "UCX", "--out", tmp_path / "out", env={**environment(), **lane})
    assert_went_by_ucx(told, *names)
    assert same_content(large_file, tmp_path / "out")


@LANES
def test_ucx_between_two_commands(tmp_path, large_file, listener, lane, names):
    env = {**environment(), **lane}
    there = listener("0", "--out", tmp_path / "out", env=env)
    assert_went_by_ucx(result(large_file, "--connect", there.address, env=env), *names)
    out, _ = there.ended(0)
    assert "UCX, " in out
    assert same_content(large_file, tmp_path / "out")


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def two_hosts():
    """Two network namespaces with a cable between them: ((name, address), (name, address))."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    names = [f"nixl-demo-{os.getpid()}-{side}" for side in "ab"]
    # Names of interfaces have 15 characters at most.
    ends = [f"nx{os.getpid()}{side}" for side in "ab"]
    hosts = list(zip(names, ("10.213.77.1", "10.213.77.2")))
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
            for (name, address), end in zip(hosts, ends):
                ip("-n", name, "address", "add", f"{address}/24", "dev", end)
                ip("-n", name, "link", "set", end, "up")
                ip("-n", name, "link", "set", "lo", "up")
            for (name, _), end in zip(hosts, ends):
                # The kernel takes its time to find the carrier; UCX passes over an interface without one.
                deadline = time.monotonic() + 30
                while json.loads(ip("-n", name, "-json", "link", "show", "dev", end))[0]["operstate"] != "UP":
                    assert time.monotonic() < deadline, f"{end} has no carrier"
                    time.sleep(0.01)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', '') or error}")
        yield hosts
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def received_bytes(host):
    """What came in from the cable."""
    links = json.loads(ip("-n", host, "-json", "-statistics", "link", "show", "type", "veth"))
    return links[0]["stats64"]["rx"]["bytes"]


def test_ucx_between_two_hosts(tmp_path, large_file, listener, two_hosts):
    (here, _), (there, address) = two_hosts
    env = {**environment(), "UCX_TLS": "tcp"}
    side = listener(f"{address}:0", "--out", tmp_path / "out", env=env, prefix=("ip", "netns", "exec", there))
    done = subprocess.run(
        ["ip", "netns", "exec", here, *command(large_file, "--connect", side.address, "--json")],
        capture_output=True, text=True, timeout=ENOUGH_S, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert_went_by_ucx(told, "tcp/nx")
    side.ended(0)
    assert same_content(large_file, tmp_path / "out")
    # WRITE in one direction, READ in the same.
    assert received_bytes(there) >= 2 * told["moved_bytes"]


def test_local_does_not_reach_another_host_and_says_so(file, listener, two_hosts):
    (here, _), (there, address) = two_hosts
    side = listener(f"{address}:0", prefix=("ip", "netns", "exec", there))
    done = subprocess.run(
        ["ip", "netns", "exec", here, *command(file, "--connect", side.address, *LOCAL, "--json")],
        capture_output=True, text=True, timeout=ENOUGH_S, env=environment(),
    )  # fmt: skip
    complaint(done, 1)
    side.ended(1)


def test_cable_that_is_cut_is_noticed_on_both_sides(tmp_path, file, listener, two_hosts):
    """No end of the connections arrives: both sides have only silence to go by."""
    (here, _), (there, address) = two_hosts
    env = {**environment(), "UCX_TLS": "tcp"}
    out = tmp_path / "out"
    side = listener(f"{address}:0", "--timeout", "4", "--out", out, env=env, prefix=("ip", "netns", "exec", there))
    process = subprocess.Popen(
        ["ip", "netns", "exec", here, *command(file, "--connect", side.address, *FOR_EVER, "--timeout", "4")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    try:
        for line in process.stderr:
            if "prefill WRITEs" in line:
                break
        ip("-n", there, "link", "set", f"nx{os.getpid()}b", "down")
        last_line(process, 1)
        assert "nothing was heard" in last_line(side.process, 1)
        assert sorted(os.listdir(tmp_path)) == ["file"]
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()

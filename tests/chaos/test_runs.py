"""Short runs: each engine's passes, one that has an error in it does not, and nothing is left of any."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.engines import BREAK, ENGINES, FAULTS
from chaos.network import missing

TESTS = Path(__file__).parents[1]
SECONDS = 60

pytestmark = pytest.mark.skipif("TEST_FULL" not in os.environ, reason="a minute each: ./dev test --full")


def command(*options):
    return [sys.executable, "-m", "chaos", *map(str, options)]


def environment(**more):
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(TESTS)]))
    return {**os.environ, "PYTHONPATH": path, **more}


def run(*options, **more):
    done = subprocess.run(
        command(*options), env=environment(**more), capture_output=True, text=True, timeout=SECONDS + 300
    )
    return done.returncode, done.stdout + done.stderr


def namespaces():
    try:
        return {line.split()[0] for line in subprocess.check_output(["ip", "netns", "list"], text=True).splitlines()}
    except (OSError, subprocess.CalledProcessError):
        return set()


@pytest.fixture
def clean():
    before = namespaces()
    yield
    assert namespaces() <= before


@pytest.mark.parametrize("name", ENGINES)
def test_a_run(clean, name):
    code, output = run("--engines", name, "--minutes", SECONDS / 60, "--seed", 1)
    if f"{name}: skipped: " in output:
        pytest.skip(output)
    # For whoever reads the log, also of a run that passed.
    print(output)
    assert code == 0, output


CULPRITS = {
    "drop-notification": "which was sent before it, did not: it is lost",
    "flip-byte": "1 words of what nobody wrote",
    "early-done": "a write that was done: version",
}


@pytest.mark.parametrize("name", CULPRITS)
def test_it_can_fail(clean, name):
    code, output = run("--engines", "local", "--minutes", 20 / 60, "--seed", 1, **{BREAK: name})
    assert code == 1, output
    wrong = [line for line in output.splitlines() if "WRONG" in line]
    assert len(wrong) == 1 and CULPRITS[name] in wrong[0], output
    # The first process makes the error: as the receiver, or as the writer.
    assert ("by 0.1 for" if name == "early-done" else "process 0.1: notification") in wrong[0]


def test_a_run_that_is_told_to_end_takes_everything_back(clean):
    before = namespaces()
    name = "local" if "cable" in missing() else "tcp"
    options = ["--engines", name, "--minutes", 5, "--seed", 1]
    process = subprocess.Popen(command(*options), env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if line.strip() == name:
                break
        # Somewhere in the middle of faults.
        time.sleep(3)
        workers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        assert workers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.communicate()
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert namespaces() <= before


def test_a_schedule_is_printed_and_repeats():
    code, output = run("--schedule", "--seed", 3, "--minutes", 1, "--engines", "tcp")
    assert code == 0
    assert run("--schedule", "--seed", 3, "--minutes", 1, "--engines", "tcp") == (0, output)
    assert "process 1  for" in output


def test_json():
    code, output = run("--json", "--seed", 3, "--minutes", 0.1, "--engines", "local", "--faults", "stop")
    found = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert code == 0 and found["passed"] and list(found["engines"]["local"]["faults"]) == ["stop"]


def test_names_that_do_not_exist_are_told():
    code, output = run("--faults", "quake")
    assert code == 2 and f"'quake' is none of {', '.join(FAULTS)}" in output

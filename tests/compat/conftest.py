"""Agents of ours and of NIXL's wheel in two processes, driven by the test.

The wheel lives in an environment of its own, whose interpreter PEER_PYTHON names; `./dev test` makes it and sets the
variable. Where it is set these tests must pass; where it is not, those that need the wheel are skipped.
"""

import contextlib
import itertools
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .agent_process import WAIT_SECONDS, content, decode, digests, encode

PROGRAM = Path(__file__).with_name("agent_process.py")
PACKAGES = {"ours": "nixl", "wheel": "nixl_cu13"}
# UCX of both sides finds the same devices on every machine.
TRANSPORTS = {
    "tcp": {"UCX_NET_DEVICES": "lo", "UCX_TLS": "tcp"},
    "shared-memory": {"UCX_NET_DEVICES": "lo", "UCX_TLS": "tcp,posix,sysv,cma,self"},
}
# The pairs that are judged; the wheel with itself says whether the test is right.
PAIRS = [("ours", "wheel"), ("wheel", "ours")]
CONTROL = [("wheel", "wheel")]
FULL = "TEST_FULL" in os.environ


def peer_python():
    python = os.environ.get("PEER_PYTHON")
    if not python:
        pytest.skip("PEER_PYTHON does not name a Python with NIXL's wheel; ./dev test does")
    return python


class AgentError(Exception):
    """A call that raised in the other process: (class, text)."""


class AgentProcess:
    """The program agent_process.py with our package or with the wheel; see there for its commands."""

    def __init__(self, kind, environment):
        self.kind = kind
        python = sys.executable if kind == "ours" else peer_python()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "NIXL_"))}
        if kind == "wheel":
            inherited.pop("PYTHONPATH", None)
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self.process = subprocess.Popen(
            [python, str(PROGRAM), PACKAGES[kind]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env={**inherited, **environment},
        )
        self.version = self.call("version")

    def call(self, command, **arguments):
        self.start(command, **arguments)
        return self.result(command)

    def start(self, command, **arguments):
        with contextlib.suppress(BrokenPipeError):  # the result will say what happened
            self.process.stdin.write(encode([command, arguments]))
            self.process.stdin.flush()

    def result(self, command="a call"):
        if not select.select([self.process.stdout], [], [], 2 * WAIT_SECONDS)[0]:
            self.end()
            pytest.fail(f"the process of {self.kind} did not answer to {command}\n{self.errors()}")
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            self.end()
            pytest.fail(
                f"the process of {self.kind} ended with {self.process.returncode} in {command}\n{self.errors()}"
            )
        answer = decode(line)
        if answer[0] == "error":
            raise AgentError(*answer[1:])
        return answer[1]

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read()[-4000:].decode(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Ends it as its own program does, or by force if it does not."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()


class Region:
    """Memory of an agent, and what it should hold: `expected`, a numpy array that the test changes."""

    def __init__(self, owner, name, size, seed):
        self.owner = owner
        self.name = name
        self.expected = content(size, seed)
        self.address = owner.call("register", region=name, size=size, seed=seed)

    def blocks(self, indices, size):
        """Descriptors of the blocks with these numbers."""
        return [(self.address + int(index) * size, size, 0) for index in indices]

    def check(self, block):
        """Every byte is as expected; if not, says which blocks of this size are wrong."""
        wanted = digests(self.expected, block)
        found = self.owner.call("digests", region=self.name, block=block)
        wrong = [index for index, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]]
        assert not wrong, f"{self.name} of {self.owner.name}: {len(wrong)} of {len(wanted)} blocks, first {wrong[:5]}"


class Agent:
    """An agent in one of the processes."""

    def __init__(self, process, name, progress_thread=True, num_threads=0, params=None):
        self.process = process
        self.name = name
        self.call("create", progress_thread=progress_thread, num_threads=num_threads, params=params or {})

    def call(self, command, **arguments):
        return self.process.call(command, agent=self.name, **arguments)

    def region(self, name, size, seed):
        return Region(self, name, size, seed)

    def learn(self, other, blob=None):
        """Loads another agent's metadata, as it is now unless given."""
        found = self.call("add", blob=other.call("metadata") if blob is None else blob)
        assert found == other.name.encode(), (found, other.name)


@pytest.fixture(scope="session")
def process_of():
    """process_of(kind, side, environment): a process that lives as long as the tests, anew after a death."""
    known = {}

    def get(kind, side, environment):
        key = (kind, side, *sorted(environment.items()))
        if key not in known or not known[key].alive():
            known[key] = AgentProcess(kind, environment)
        return known[key]

    yield get
    for process in known.values():
        process.end()


@pytest.fixture(params=TRANSPORTS)
def transports(request):
    return TRANSPORTS[request.param]


@pytest.fixture(params=PAIRS + (CONTROL if FULL else []), ids="-".join)
def kinds(request):
    """(initiator's, target's)"""
    peer_python()
    return request.param


NUMBERS = itertools.count()


@pytest.fixture
def make_agent(process_of, transports):
    """make_agent(kind, side, name, **config): an agent, alive until the end of the test."""
    made = []

    def make(kind, side, name=None, **config):
        name = name or f"{side}-{kind}-{next(NUMBERS)}"
        agent = Agent(process_of(kind, side, transports), name, **config)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        if agent.process.alive():
            agent.call("drop")


@pytest.fixture
def pair(make_agent, kinds):
    """(initiator, target); neither knows the other yet."""
    return make_agent(kinds[0], "initiator"), make_agent(kinds[1], "target")

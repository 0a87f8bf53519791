"""The processes of a run: started, spoken to, stopped, killed and started again. None outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .engines import BREAK, PRELOAD, WITNESS, Engine
from .network import Cables, cables

TESTS = Path(__file__).parents[1]
# The last words of a process in a report; of a sanitizer, its first.
LAST_WORDS = 3000
SANITIZER_WORDS = 12000
LONGEST_MESSAGE = {"nixl": 100_000, "nixl_cu13": 8_000}


class Process:
    """One life of a process. `stopped` and `leaving` say that its silence or its end is meant."""

    def __init__(self, index: int, life: int, command: list[str], environment: dict[str, str]) -> None:
        self.index, self.life = index, life
        self.stopped = self.leaving = False
        self.metadata, self.inbox = "", 0
        self.ready = False
        self.heard = 0.0
        self._rest = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._unsent = b""
        self.popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )
        os.set_blocking(self.popen.stdin.fileno(), False)
        os.set_blocking(self.popen.stdout.fileno(), False)

    def send(self, commands: list[list]) -> None:
        self._unsent += json.dumps(commands).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """As much as the pipe takes: one that is stopped reads later."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                sent = os.write(self.popen.stdin.fileno(), self._unsent)
                self._unsent = self._unsent[sent:]

    def events(self) -> list[list]:
        """What it has reported since."""
        with contextlib.suppress(BlockingIOError):
            while read := os.read(self.popen.stdout.fileno(), 1 << 20):
                self._rest += read
        *lines, self._rest = self._rest.split(b"\n")
        return [event for line in lines for event in json.loads(line)]

    def errors(self) -> str:
        # It writes at the offset of the file, which is shared.
        size = os.fstat(self._errors.fileno()).st_size
        words = os.pread(self._errors.fileno(), size, 0).decode(errors="replace")
        if found := re.search(r"AddressSanitizer: |==\d+==ERROR: |WARNING: ThreadSanitizer|: runtime error: ", words):
            return "\n".join(line[:160] for line in words[found.start() :].splitlines())[:SANITIZER_WORDS]
        return words[-LAST_WORDS:]

    def signal(self, number: int) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(number)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self._errors):
            with contextlib.suppress(OSError):
                pipe.close()


class World:
    """All processes of an engine, and its cables. Made by `world()`."""

    def __init__(self, engine: Engine, seed: int, peer_python: str | None, net: Cables | None, breaks: str) -> None:
        self.engine, self.seed, self.net = engine, seed, net
        self._peer_python = peer_python
        self._breaks = breaks
        self.processes: dict[int, Process] = {}
        self._lives = dict.fromkeys(range(len(engine.packages)), 0)

    def start(self, index: int) -> Process:
        """A process of this number, anew if there was one before."""
        self._lives[index] += 1
        package = self.engine.packages[index]
        python = sys.executable if package == "nixl" else self._peer_python
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "NIXL_", "CHAOS_"))
        }
        environment.update(self.engine.environment)
        own = [] if package != "nixl" else os.environ.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, own)])
        if package == "nixl" and (sanitizer := os.environ.get(PRELOAD)):
            # With a sanitizer's go neither UCX's hooks of the memory functions, nor how its cma asks whether it works.
            environment.update(LD_PRELOAD=sanitizer, UCX_MEM_EVENTS="n")
            if "UCX_TLS" in environment:
                environment["UCX_TLS"] = environment["UCX_TLS"].replace(",cma", "")
        # Memory that was freed holds nothing that is right by chance.
        environment["GLIBC_TUNABLES"] = "glibc.malloc.perturb=165"
        if self._breaks and index == WITNESS:
            environment[BREAK] = self._breaks
        settings = {
            "package": package,
            "index": index,
            "life": self._lives[index],
            "count": len(self.engine.packages),
            "seed": self.seed,
            "backend": self.engine.backend,
            "parameters": self.engine.parameters,
            # One process without a thread of UCX: its peers are answered in its own calls.
            "progress_thread": index != 1,
            "longest_message": min(LONGEST_MESSAGE[kind] for kind in self.engine.packages),
        }
        command = [python, "-m", "chaos.worker", json.dumps(settings)]
        if self.net:
            command = [*self.net.command(index), *command]
        self.processes[index] = Process(index, self._lives[index], command, environment)
        return self.processes[index]

    def close(self) -> None:
        for process in self.processes.values():
            process.end()


@contextlib.contextmanager
def world(engine: Engine, seed: int, peer_python: str | None, breaks: str = "") -> Iterator[World]:
    """Raises network.Unavailable. Nothing of it is left afterwards."""
    random.seed(seed)
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(cables(len(engine.packages))) if engine.cable else None
        made = World(engine, seed, peer_python, net, breaks)
        stack.callback(made.close)
        yield made

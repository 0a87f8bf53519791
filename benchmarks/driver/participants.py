"""Who is measured: processes that run all the time and are asked in turns."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
from pathlib import Path

from .cases import Case
from .network import Network

ANSWER_S = 300


class Failed(Exception):
    """A participant could not measure; the text says why, for people."""


class Child:
    """A process that answers a line with a line. Its standard error goes to a file, whose end explains its death.

    It and the processes that it starts are stopped from each answer to the next line: a library that polls while it
    has nothing to do would take the cores from those who are measured. environment: all of it.
    """

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # A group of their own in this session: the kernel wakes and ends it should this process die.
                preexec_fn=os.setpgrp,
            )

    def ask(self, line: str) -> str:
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._ended()) from None
        return self.answer()

    def answer(self) -> str:
        """The first line comes without being asked for."""
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        if not ready:
            raise Failed(f"{self.name}: no answer within {ANSWER_S} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(self._ended())
        self._signal(signal.SIGSTOP)
        return line.decode()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        lines = self.log.read_text(errors="replace").splitlines()
        return f"{self.name} ended ({self._process.returncode}): {' '.join(lines[-3:]) or 'no message'}"

    def close(self) -> None:
        self._signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        # Also what it started and did not outlive it.
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


class Pair:
    """An implementation: two processes of kv_bench.py. `about` is what it says about itself.

    Raises Failed where it does not get as far as its first transfer.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str],
        mib: int,
        kind: str,
        network: Network,
        logs: Path,
    ) -> None:
        log = logs / f"{name.replace(' ', '-')}-{kind}{network.name and '-'}{network.name}.log"
        served = [*network.here, *command, "--serve", "--mib", str(mib), "--kind", kind]
        if network.there:
            served.append(f"--target-via={' '.join(network.there)}")
        # Idle threads of numpy's library poll for a while, on cores that belong to those who are measured.
        environment = environment | network.environment | {"OPENBLAS_NUM_THREADS": "1"}
        self._child = Child(name, served, environment, log)
        self.name = name
        try:
            self.about = self._result(self._child.answer())
        except Failed:
            self._child.close()
            raise
        lanes = re.findall(r"INFO\s+initiator (?:intra|inter)-node cfg#\d+ (.*)", log.read_text(errors="replace"))
        if not self.about["path"] and lanes:
            self.about["path"] = " ".join(lanes[-1].split())
        # Where a library lies says nothing about the figures, and the text goes into pages.
        self.about["path"] = re.sub(r" \(/[^)]*\)", "", self.about["path"])

    def measure(self, case: Case) -> dict[str, list[float]]:
        return self._result(self._child.ask(json.dumps({"call": case.call, "arguments": case.arguments})))

    def _result(self, text: str):
        answer = json.loads(text)
        if "error" in answer:
            raise Failed(f"{self._child.name}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        self._child.close()

"""Who is measured: processes that run all the time and are asked in turns."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
from kv import blocks

from .cases import Case

ANSWER_S = 300
PERFTEST_BYTES = 1 << 20
PERFTEST_ITERATIONS = 1000


class Failed(Exception):
    """A participant could not measure; the text says why, for people."""


class Child:
    """A process that answers a line with a line. Its standard error goes to a file, whose end explains its death.

    environment: all of it.
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
            )

    def tell(self, line: str) -> None:
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._ended()) from None

    def answer(self) -> str:
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        if not ready:
            raise Failed(f"{self.name}: no answer within {ANSWER_S} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(self._ended())
        return line.decode()

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        lines = self.log.read_text(errors="replace").splitlines()
        return f"{self.name} ended ({self._process.returncode}): {' '.join(lines[-3:]) or 'no message'}"

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Pair:
    """An implementation: two processes of kv_bench.py. `about` is what it says about itself."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], mib: int, kind: str, logs: Path
    ) -> None:
        log = logs / f"{name.replace(' ', '-')}-{kind}.log"
        self._child = Child(name, [*command, "--serve", "--mib", str(mib), "--kind", kind], environment, log)
        self.name = name
        self.about = self._answer()
        lanes = re.findall(r"INFO\s+initiator (?:intra|inter)-node cfg#\d+ (.*)", log.read_text(errors="replace"))
        if not self.about["path"] and lanes:
            self.about["path"] = " ".join(lanes[-1].split())
        # Where a library lies says nothing about the figures, and the text goes into pages.
        self.about["path"] = re.sub(r" \(/[^)]*\)", "", self.about["path"])

    def measure(self, case: Case) -> dict[str, list[float]]:
        self._child.tell(json.dumps({"call": case.call, "arguments": case.arguments}))
        return self._answer()

    def _answer(self):
        answer = json.loads(self._child.answer())
        if "error" in answer:
            raise Failed(f"{self._child.name}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        self._child.close()


class HostLimit:
    """limit_host: copies of the same blocks by one thread and by all that it may use, whichever is faster."""

    def __init__(self, program: Path, mib: int, threads: int, repetitions: int, logs: Path) -> None:
        self._bytes = mib << 20
        self._repetitions = repetitions
        self._threads = sorted({1, threads})
        self._child = Child(
            "limit_host", [str(program), str(self._bytes), str(threads)], dict(os.environ), logs / "limit_host.log"
        )
        # The block numbers, in the order in which a transfer names them.
        self._positions = logs / f"blocks-{os.getpid()}"

    def measure(self, case: Case) -> dict[str, list[float]]:
        limit = case.limit
        local, remote = blocks.positions(self._bytes // limit.block, limit.count)
        self._positions.write_bytes(np.stack([local, remote], axis=1).astype("<u8").tobytes())
        return {key: self._best(method, limit.block) for key, method in limit.methods.items()}

    def _best(self, method: str, block: int) -> list[float]:
        runs = []
        for threads in self._threads:
            # The first repetition meets cold caches and is not counted, as with the transfers.
            self._child.tell(f"{method} {threads} {self._repetitions + 1} {block} {self._positions}")
            runs.append([float(text) for text in self._child.answer().split()][1:])
        return min(runs, key=statistics.median)

    def close(self) -> None:
        self._child.close()
        self._positions.unlink(missing_ok=True)


class UcxLimit:
    """ucx_perftest of the UCX that ours uses: puts of 1 MiB on loop-back, with UCX's defaults."""

    def __init__(self, ucx: Path, logs: Path) -> None:
        self._program = ucx / "bin" / "ucx_perftest"
        self._environment = os.environ | {
            "LD_LIBRARY_PATH": str(ucx / "lib"),
            "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": "lo",
            "UCX_WARN_UNUSED_ENV_VARS": "n",
        }
        self._log = logs / "ucx_perftest.log"

    def measure(self, case: Case) -> dict[str, list[float]]:
        seconds = case.limit.block * case.limit.count / self._bytes_per_second()
        return dict.fromkeys(case.limit.methods, [seconds])

    def _bytes_per_second(self) -> float:
        port = str(_free_port())
        with open(self._log, "wb") as log:
            server = subprocess.Popen([self._program, "-p", port], env=self._environment, stdout=log, stderr=log)
        try:
            _wait_for_listener(int(port), server)
            test = ["-t", "ucp_put_bw", "-s", str(PERFTEST_BYTES), "-n", str(PERFTEST_ITERATIONS), "-w", "50", "-f"]
            client = subprocess.run(
                [self._program, "-p", port, "127.0.0.1", *test],
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except subprocess.TimeoutExpired:
            raise Failed("ucx_perftest did not end within 60 s") from None
        finally:
            server.kill()
            server.wait()
        return perftest_bandwidth(client.stdout)

    def close(self) -> None:
        pass


def perftest_bandwidth(output: str) -> float:
    """Bytes per second of the whole run, from the table that ucx_perftest prints: the second figure in MB/s."""
    for line in reversed(output.splitlines()):
        fields = line.split()
        if len(fields) >= 8 and all(re.fullmatch(r"[\d.]+", field) for field in fields[-8:]):
            # Its megabyte has 1024 * 1024 bytes.
            return float(fields[-3]) * (1 << 20)
    raise Failed(f"ucx_perftest printed no result: {output.strip()[-200:]!r}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for_listener(port: int, server: subprocess.Popen) -> None:
    """Returns when the port is listened on; a connection to it would be taken for the client."""
    wanted = f":{port:04X}"
    end = time.monotonic() + 20
    while time.monotonic() < end and server.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError):
                for line in Path(table).read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return
        time.sleep(0.02)
    raise Failed("ucx_perftest does not listen")

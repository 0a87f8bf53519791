"""What the machine allows: programs without the library that move the same bytes."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
from kv import blocks

from .cases import Case
from .network import Network
from .participants import Child, Failed

PERFTEST_BYTES = 1 << 20


class HostLimit:
    """limit_host: copies of the same blocks by one thread and by all that it may use, whichever is faster.

    `about` as that of a Pair.
    """

    def __init__(self, program: Path, mib: int, threads: int, repetitions: int, logs: Path) -> None:
        self._bytes = mib << 20
        self._repetitions = repetitions
        self._threads = sorted({1, threads})
        self._child = Child(
            "limit_host", [str(program), str(self._bytes), str(threads)], dict(os.environ), logs / "limit_host.log"
        )
        try:
            here, there, shared = (float(share) for share in self._child.answer().split())
        except Failed:
            self._child.close()
            raise
        self.about = {
            "path": f"shared memory with {shared:.0%} in huge pages",
            "threads": threads,
            "huge_pages": [here, there],
        }
        # The block numbers, in the order in which a transfer names them.
        self._positions = logs / f"blocks-{os.getpid()}"

    def measure(self, case: Case) -> dict[str, list[float]]:
        limit = case.limit
        # Within one process from one half of the memory to the other, as kv/session.py does it.
        half = (self._bytes // 2 if "memcpy_local" in limit.methods.values() else 0) // limit.block
        local, remote = blocks.positions(half or self._bytes // limit.block, limit.count)
        self._positions.write_bytes(np.stack([local, remote + half], axis=1).astype("<u8").tobytes())
        return {key: self._best(method, limit.block) for key, method in limit.methods.items()}

    def _best(self, method: str, block: int) -> list[float]:
        runs = []
        for threads in self._threads:
            # The first repetition meets cold caches and is not counted, as with the transfers.
            answer = self._child.ask(f"{method} {threads} {self._repetitions + 1} {block} {self._positions}")
            runs.append([float(text) for text in answer.split()][1:])
        return min(runs, key=statistics.median)

    def close(self) -> None:
        self._child.close()
        self._positions.unlink(missing_ok=True)


class UcxLimit:
    """ucx_perftest of the UCX that ours uses: puts of 1 MiB over the network, with UCX's defaults.

    Once with processes that poll and once with such that sleep, whichever is faster: who polls wins where the cores
    have nothing else to do, and loses where they have.
    """

    def __init__(self, ucx: Path, network: Network, puts: int, logs: Path) -> None:
        self._program = str(ucx / "bin" / "ucx_perftest")
        self._network = network
        self._puts = puts
        self._environment = os.environ | {
            "LD_LIBRARY_PATH": str(ucx / "lib"),
            "UCX_TLS": "tcp",
            "UCX_NET_DEVICES": "lo",
            "UCX_WARN_UNUSED_ENV_VARS": "n",
        }
        self._environment |= network.environment
        self._log = logs / "ucx_perftest.log"

    def measure(self, case: Case) -> dict[str, list[float]]:
        fastest = max(self._bytes_per_second(mode) for mode in ("poll", "sleep"))
        seconds = case.limit.block * case.limit.count / fastest
        return dict.fromkeys(case.limit.methods, [seconds])

    def _bytes_per_second(self, mode: str) -> float:
        port = str(_free_port())
        with open(self._log, "wb") as log:
            server = subprocess.Popen(
                [*self._network.there, self._program, "-E", mode, "-p", port],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        try:
            _wait_for_listener(int(port), server)
            test = ["-t", "ucp_put_bw", "-s", str(PERFTEST_BYTES), "-n", str(self._puts), "-w", "50", "-f", "-E", mode]
            client = subprocess.run(
                [*self._network.here, self._program, "-p", port, self._network.address, *test],
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
        for table in (f"/proc/{server.pid}/net/tcp", f"/proc/{server.pid}/net/tcp6"):
            with contextlib.suppress(OSError):
                for line in Path(table).read_text().splitlines()[1:]:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return
        time.sleep(0.02)
    raise Failed("ucx_perftest does not listen")

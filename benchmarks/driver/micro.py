"""The micro benchmarks: one program, made with Google Benchmark, that costs single calls."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .figures import OURS, Reading, Row
from .participants import Failed

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def measure(program: Path, repetitions: int, min_time_s: float) -> list[Row]:
    """A row per benchmark. Raises Failed."""
    command = [
        program,
        "--benchmark_format=json",
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={min_time_s}",
        "--benchmark_report_aggregates_only=false",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"micro benchmarks: {done.stderr.strip()[-300:]}")
    return rows(done.stdout)


def rows(output: str) -> list[Row]:
    """Rows of what Google Benchmark prints as JSON. Raises Failed if a benchmark says that it failed."""
    found: dict[str, Row] = {}
    for run in json.loads(output)["benchmarks"]:
        if run.get("error_occurred"):
            raise Failed(f"micro benchmark {run['name']}: {run.get('error_message', '')}")
        if run["run_type"] != "iteration":
            continue
        name = run["run_name"].removesuffix("/real_time")
        row = found.setdefault(name, Row("micro", name, Reading("per call", "call", "ns")))
        row.add(OURS, [run["real_time"] * _SECONDS[run["time_unit"]]])
    return list(found.values())

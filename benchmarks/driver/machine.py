"""What a figure was taken on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> dict[str, object]:
    """Distribution, processor, cores that may be used, memory, kernel, load."""
    return {
        "system": _value("/etc/os-release", "PRETTY_NAME=").strip('"') or platform.system(),
        "processor": _value("/proc/cpuinfo", "model name\t: ") or platform.machine(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release().partition("-")[0],  # builds of one version differ by name only
        "load": round(os.getloadavg()[0], 1),
    }


def cores() -> int:
    return len(os.sched_getaffinity(0))


def sentence(machine: dict[str, object]) -> str:
    return (
        f"{machine['system']}, {machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}; load when it began: {machine['load']}"
    )


def _value(path: str, prefix: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix(prefix).strip() for line in lines if line.startswith(prefix)), "")

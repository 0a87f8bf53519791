"""What lies between the two processes of a participant: this host's own interfaces, or a cable between two hosts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The name of either end of the cable, and addresses that RFC 2544 sets aside for measuring.
DEVICE = "nixl0"
ADDRESSES = ("198.18.77.1", "198.18.77.2")
CARRIER_S = 30
_NAMESPACE = "nixl-bench-{pid}-{end}"


@dataclass(frozen=True)
class Network:
    """here, there: commands that run a program at either end. address: of the other end. environment: what makes UCX
    use this network."""

    name: str = ""
    here: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    environment: dict[str, str] = field(default_factory=dict)


class Unavailable(Exception):
    """There is no such network here; the text says why."""


@contextlib.contextmanager
def veth() -> Iterator[Network]:
    """Two network namespaces joined by a pair of virtual Ethernet devices, which are gone afterwards.

    Raises Unavailable. Needs root.
    """
    names = [_NAMESPACE.format(pid=os.getpid(), end=end) for end in ("a", "b")]
    with contextlib.ExitStack() as added:
        _remove_leftovers()
        for name in names:
            _ip("netns", "add", name)
            # The devices go with it, once no process is in it any more.
            added.callback(_remove, name)
        _ip("link", "add", DEVICE, "netns", names[0], "type", "veth", "peer", "name", DEVICE, "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            _ip("-n", name, "address", "add", f"{address}/30", "dev", DEVICE)
            for device in ("lo", DEVICE):
                _ip("-n", name, "link", "set", device, "up")
        for name in names:
            _wait_for_carrier(name)
        here, there = (("ip", "netns", "exec", name) for name in names)
        yield Network("veth", here, there, ADDRESSES[1], {"UCX_NET_DEVICES": DEVICE})


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    except OSError as error:
        raise Unavailable(f"ip of iproute2 cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        raise Unavailable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _remove(namespace: str) -> None:
    with contextlib.suppress(Unavailable):
        _ip("netns", "delete", namespace)


def _wait_for_carrier(namespace: str) -> None:
    """UCX passes over an interface without one."""
    end = time.monotonic() + CARRIER_S
    while json.loads(_ip("-n", namespace, "-json", "link", "show", "dev", DEVICE))[0]["operstate"] != "UP":
        if time.monotonic() > end:
            raise Unavailable(f"{DEVICE} has no carrier after {CARRIER_S} s")
        time.sleep(0.01)


def _remove_leftovers() -> None:
    """Of programs that were killed before they could."""
    pattern = _NAMESPACE.format(pid=r"(\d+)", end="[ab]")
    for line in _ip("netns", "list").splitlines():
        name = line.partition(" ")[0]
        if (found := re.fullmatch(pattern, name)) and not Path(f"/proc/{found[1]}").exists():
            _remove(name)

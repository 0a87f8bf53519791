"""Network namespaces, one per process, joined by a bridge in a namespace of its own; and what can be done to a cable.

Needs root and iproute2; loss and silence need nft, delay and reordering the device /dev/net/tun.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .engines import DEVICE

CARRIER_S = 30
_NAMESPACE = "nixl-chaos-{pid}-{end}"
_RATE = "200mbit"
_LOSS_PER_MILLE = 30
# Milliseconds of every packet, and at most as many more of one in ten, which so falls behind others.
_DELAYS = {"delay": (10, 0), "reorder": (1, 8)}


class Unavailable(Exception):
    """Something is missing here; the text says what."""


def run(*command: str, stdin: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def missing() -> dict[str, str]:
    """What kernel and machine lack, and the reason: cable, nft, tbf, tun, netem."""
    reasons: dict[str, str] = {}

    def attempt(name: str, *command: str, stdin: str | None = None) -> None:
        try:
            run(*command, stdin=stdin)
        except Unavailable as reason:
            reasons[name] = str(reason)

    probe = _NAMESPACE.format(pid=os.getpid(), end="probe")
    try:
        run("ip", "netns", "add", probe)
    except Unavailable as reason:
        return dict.fromkeys(("cable", "nft", "tbf", "tun", "netem"), str(reason))
    inside = ("ip", "netns", "exec", probe)
    try:
        attempt("cable", *inside, "ip", "link", "add", "middle", "type", "bridge")
        attempt("cable", *inside, "ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
        attempt("nft", *inside, "nft", "-f", "-", stdin=_rules(['iifname "here" numgen random mod 1000 < 1 drop']))
        attempt("tbf", *inside, "tc", *_tbf("here"))
        attempt("netem", *inside, "tc", "qdisc", "add", "dev", "there", "root", "netem", "delay", "1ms")
        attempt("tun", *inside, "ip", "tuntap", "add", "dev", "tap", "mode", "tap")
    finally:
        _remove(probe)
    return reasons


def _rules(rules: list[str]) -> str:
    lines = "\n".join(rules)
    return f"table bridge chaos {{\n chain forward {{\n type filter hook forward priority 0\n{lines}\n }}\n}}\n"


def _tbf(device: str) -> list[str]:
    return f"qdisc add dev {device} root tbf rate {_RATE} burst 64kb latency 50ms".split()


def _remove(namespace: str) -> None:
    with contextlib.suppress(Unavailable):
        run("ip", "netns", "delete", namespace)


def _remove_leftovers() -> None:
    """Of programs that were killed before they could."""
    pattern = _NAMESPACE.format(pid=r"(\d+)", end=r"\w+")
    for line in run("ip", "netns", "list").splitlines():
        name = line.partition(" ")[0]
        if (found := re.fullmatch(pattern, name)) and not Path(f"/proc/{found[1]}").exists():
            _remove(name)


class Cables:
    """The cables of `count` processes. Made by `cables()`."""

    def __init__(self, count: int, hub: str, ends: list[str]) -> None:
        self.count, self.hub, self.ends = count, hub, ends
        self._relays: dict[int, subprocess.Popen] = {}

    def command(self, index: int) -> list[str]:
        """Runs a program at the end of a cable."""
        return ["ip", "netns", "exec", self.ends[index]]

    def _in_hub(self, *command: str, stdin: str | None = None) -> None:
        run("ip", "netns", "exec", self.hub, *command, stdin=stdin)

    def apply(self, fault: str, index: int) -> Callable[[], None]:
        """Does it to the cable of a process; the result undoes it."""
        port = f"port{index}"
        if fault == "cut":
            self._in_hub("ip", "link", "set", port, "down")
            return lambda: self._in_hub("ip", "link", "set", port, "up")
        if fault in ("loss", "silence"):
            chance = f" numgen random mod 1000 < {_LOSS_PER_MILLE}" if fault == "loss" else ""
            table = f"chaos{index}"
            rules = _rules([f'iifname "{port}"{chance} drop', f'oifname "{port}"{chance} drop'])
            self._in_hub("nft", "-f", "-", stdin=rules.replace("chaos", table))
            return lambda: self._in_hub("nft", "delete", "table", "bridge", table)
        if fault in ("rate", "netem"):
            netem = f"qdisc add dev {port} root netem delay 5ms 4ms loss 1%".split()
            self._in_hub("tc", *(_tbf(port) if fault == "rate" else netem))
            return lambda: self._in_hub("tc", "qdisc", "delete", "dev", port, "root")
        return self._relay(index, port, *_DELAYS[fault])

    def _relay(self, index: int, port: str, delay: int, more: int) -> Callable[[], None]:
        """Moves the port to a bridge of its own, joined to the others by a program that takes its time."""
        aside, near, far = f"aside{index}", f"near{index}", f"far{index}"
        self._in_hub("ip", "link", "add", aside, "type", "bridge")
        self._in_hub("ip", "link", "set", aside, "up")
        command = [sys.executable, str(Path(__file__).with_name("relay.py")), near, far, str(delay), str(more)]
        program = ["ip", "netns", "exec", self.hub, *command]
        relay = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._relays[index] = relay
        if not relay.stdout.readline():
            raise Unavailable("the relay did not start")
        for device, bridge in ((near, "hub"), (far, aside)):
            self._in_hub("ip", "link", "set", device, "master", bridge, "up")
        self._in_hub("ip", "link", "set", port, "master", aside)

        def undo() -> None:
            self._in_hub("ip", "link", "set", port, "master", "hub")
            self._end_relay(index)
            self._in_hub("ip", "link", "delete", aside)

        return undo

    def _end_relay(self, index: int) -> None:
        relay = self._relays.pop(index)
        relay.kill()
        relay.wait()
        relay.stdin.close()
        relay.stdout.close()

    def close(self) -> None:
        for index in list(self._relays):
            self._end_relay(index)


@contextlib.contextmanager
def cables(count: int) -> Iterator[Cables]:
    """Raises Unavailable. What it makes is gone afterwards, once no process is in it any more."""
    hub, *ends = (_NAMESPACE.format(pid=os.getpid(), end=end) for end in ("hub", *map(str, range(count))))
    with contextlib.ExitStack() as added:
        _remove_leftovers()
        for name in (hub, *ends):
            run("ip", "netns", "add", name)
            added.callback(_remove, name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "hub", "up")
        for index, end in enumerate(ends):
            port = f"port{index}"
            run("ip", "link", "add", port, "netns", hub, "type", "veth", "peer", "name", DEVICE, "netns", end)
            # A machine may have IPv6 off, and UCX finds addresses of both kinds: one is enough.
            run("ip", "-n", end, "address", "add", f"198.18.78.{index + 1}/24", "dev", DEVICE)
            run("ip", "-n", hub, "link", "set", port, "master", "hub", "up")
            run("ip", "-n", end, "link", "set", DEVICE, "up")
        for end in ends:
            _wait_for_carrier(end)
        made = Cables(count, hub, ends)
        added.callback(made.close)
        yield made


def _wait_for_carrier(namespace: str) -> None:
    """UCX passes over an interface without one."""
    end = time.monotonic() + CARRIER_S
    while json.loads(run("ip", "-n", namespace, "-json", "link", "show", "dev", DEVICE))[0]["operstate"] != "UP":
        if time.monotonic() > end:
            raise Unavailable(f"{DEVICE} has no carrier after {CARRIER_S} s")
        time.sleep(0.01)

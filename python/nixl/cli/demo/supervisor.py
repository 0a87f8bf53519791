"""Starts the two processes, gives them orders, and notices when one dies or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Pipe, wait
from typing import Any

from . import worker
from .errors import Failed, Refused

ROLES = ("prefill", "decode")
# When one process reports a failure, the other may just have died and be the cause; so long we look for that.
LOOK_FOR_DEATH_S = 0.5
QUIT_S = 5.0

Order = tuple[str, dict[str, Any]]


class Member:
    """One of the two processes, as the supervisor sees it."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.link, theirs = Pipe()
        with theirs:
            # A session of its own: Ctrl-C reaches only the supervisor, which ends both. What the library or
            # Python writes to stdout goes to stderr; stdout is for the result.
            self.process = subprocess.Popen(
                [sys.executable, worker.__file__, role, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def death(self) -> str:
        """How the process ended. REQUIRES: its end of the pipe is closed."""
        try:
            code = self.process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            return f"{self.role} broke off and does not end"
        if code >= 0:
            return f"{self.role} ended unexpectedly (exit code {code})"
        hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
        return f"{self.role} was killed by {_signal_name(-code)}{hint}"

    def quit(self) -> None:
        try:
            self.link.send(("quit", {}))
            self.process.wait(QUIT_S)
        except (OSError, subprocess.TimeoutExpired):
            pass  # kill() follows

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.link.close()


class Supervisor:
    """The two processes, as a context: whatever happens inside, none of them is left afterwards."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._members: dict[str, Member] = {}

    def __enter__(self) -> Supervisor:
        try:
            for role in ROLES:
                self._members[role] = Member(role)
        except OSError as error:
            self._kill()
            raise Failed(f"cannot start a process: {error}") from None
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, kind, *_exception) -> None:
        try:
            if kind is None:
                for member in self._members.values():
                    member.quit()
        finally:
            self._kill()

    def order(
        self, orders: dict[str, Order], watch: str = "", on_progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, Any]:
        """Gives each role its order at the same time and returns their results, by role.

        `on_progress` hears how far the role `watch` is. Raises Refused or Failed: a process said so, died, or
        one that owes its result showed no progress for the time-out.
        """
        for role, (name, arguments) in orders.items():
            self._send(self._members[role], (name, arguments))
        results: dict[str, Any] = {}
        heard = dict.fromkeys(orders, time.monotonic())  # when each role that owes a result was heard last
        while heard:
            patience = min(heard.values()) + self._timeout_s - time.monotonic()
            ready = wait([member.link for member in self._members.values()], max(0.0, patience))
            now = time.monotonic()
            for member in [member for member in self._members.values() if member.link in ready]:
                kind, value = self._receive(member)
                heard[member.role] = now
                if kind == "result":
                    results[member.role] = value
                    del heard[member.role]
                elif kind == "refused":
                    raise Refused(value)
                elif kind == "failed":
                    raise Failed(self._cause(member, value))
                elif member.role == watch:
                    on_progress(value)
            if heard and now >= min(heard.values()) + self._timeout_s:
                raise Failed(self._hanging(orders, heard))
        return results

    def ask(self, role: str, name: str, **arguments: Any) -> Any:
        """One order to one role."""
        return self.order({role: (name, arguments)})[role]

    def _send(self, member: Member, message: Order) -> None:
        try:
            member.link.send(message)
        except OSError:
            raise Failed(member.death()) from None

    def _receive(self, member: Member) -> tuple[str, Any]:
        try:
            return member.link.recv()
        except (EOFError, OSError):
            raise Failed(member.death()) from None

    def _cause(self, reporter: Member, text: str) -> str:
        others = {member.process.pid: member for member in self._members.values() if member is not reporter}
        limit = time.monotonic() + LOOK_FOR_DEATH_S
        while time.monotonic() < limit:
            for other in others.values():
                if other.process.poll() is not None:
                    return other.death()
            time.sleep(0.01)
        return f"{reporter.role} failed: {text}"

    def _hanging(self, orders: dict[str, Order], heard: dict[str, float]) -> str:
        # One that only waits for the other may be the first whose time is over; both are named then.
        silent = [role for role, at in heard.items() if time.monotonic() - at > 0.9 * self._timeout_s]
        who = " and ".join(f"{role} (in '{orders[role][0]}')" for role in silent)
        return f"no progress for {self._timeout_s:g} s by {who}; both processes were ended"

    def _kill(self) -> None:
        for member in self._members.values():
            member.kill()
        self._members.clear()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _has_descriptor(stream) -> bool:
    try:
        stream.fileno()
        return True
    except (AttributeError, OSError, ValueError):
        return False

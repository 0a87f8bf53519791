"""The two that move the file, as their supervisor sees them: a process it started, or one behind a connection."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import wait
from typing import Any

from ... import __version__
from . import protocol, worker
from .address import Address, connect
from .errors import Failed
from .link import Garbled, Link

QUIT_S = 5.0
# So long a side that may be what is wrong has to take in why the run ends.
TELL_S = 1.0


class Process:
    """A process of this host, started here.

    `apart`: its peer is started by another program.
    """

    place = ""

    def __init__(self, role: str, backend: str, timeout_s: float, apart: bool = False) -> None:
        self.role = role
        local = backend == "LOCAL"
        # Otherwise LOCAL, which joins engines for the network, would carry what stays within a host.
        settings = {} if local else {"NIXL_LOCAL": "off"}
        ptracers = "any" if local and apart else "supervisor"
        mine, theirs = socket.socketpair()
        self.link = Link(mine, timeout_s)
        try:
            with theirs:
                # A session of its own: Ctrl-C reaches only the supervisor, which ends both. What the library or
                # Python writes to stdout goes to stderr; stdout is for the result.
                self.process = subprocess.Popen(
                    [sys.executable, worker.__file__, role, str(theirs.fileno()), str(os.getpid()), ptracers],
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
                    env={**os.environ, **settings},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as error:
            self.link.close()
            raise Failed(f"cannot start a process: {error}") from None

    def give(self, order: str, arguments: dict[str, Any]) -> None:
        try:
            self.link.send(order, arguments)
        except OSError:
            raise Failed(self.death()) from None

    def answer(self) -> tuple[str, Any]:
        """What it says next. Raises Failed if it ended."""
        try:
            return self.link.receive()
        except (EOFError, OSError):
            raise Failed(self.death()) from None

    def keep_alive(self) -> None:
        pass  # it ends with the process that started it

    def death(self) -> str:
        """How the process ended. REQUIRES: its end of the link is closed."""
        return self.death_within(QUIT_S) or f"{self.role} broke off and does not end"

    def death_within(self, limit_s: float) -> str | None:
        """How the process ended, if it does in time."""
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        if code >= 0:
            return f"{self.role} ended unexpectedly (exit code {code})"
        hint = ", perhaps by the system for want of memory" if code == -signal.SIGKILL else ""
        return f"{self.role} was killed by {_signal_name(-code)}{hint}"

    def quit(self, problem: str) -> None:
        """Ends it in good order if that takes no time; kill() follows in any case."""
        if problem:
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.link.send("quit", {})
            self.process.wait(QUIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.link.close()


class Remote:
    """Decode behind a connection to `nixl demo --listen`. `saves`: that side wants to keep the file."""

    role = "decode"

    def __init__(self, address: Address, backend: str, timeout_s: float) -> None:
        self.place = f"at {address}"
        self._named = f"{self.role} {self.place}"
        connection = connect(address)
        try:
            self.saves = self._introduce(Link(connection, protocol.HELLO_S), address, backend)
            self.link = Link(connection, timeout_s)
        except BaseException:
            connection.close()
            raise
        self._sent = time.monotonic()
        self._order = ""

    def give(self, order: str, arguments: dict[str, Any]) -> None:
        self._order = order
        self._send(order, arguments)

    def answer(self) -> tuple[str, Any]:
        """What it says next. Raises Failed if it ended, or says what cannot be."""
        try:
            kind, value = self.link.receive()
        except EOFError:
            raise Failed(self.death()) from None
        except OSError as error:
            raise Failed(f"{self._named} is out of reach: {error}") from None
        except Garbled as error:
            raise Failed(f"{self._named} sent {error}") from None
        if kind == "died" and protocol.text()(value):
            raise Failed(f"{self._named}: {value}")
        if not self._may_answer(kind, value):
            raise Failed(f"{self._named} answered '{self._order}' with what cannot be its answer")
        return kind, value

    def keep_alive(self) -> None:
        """The other side gives up when it hears nothing."""
        if time.monotonic() - self._sent > protocol.ALIVE_S:
            self._send("alive", None)

    def death(self) -> str:
        return f"{self._named} broke off"

    def death_within(self, limit_s: float) -> str | None:
        end = time.monotonic() + limit_s
        try:
            while wait([self.link], max(0.0, end - time.monotonic())):
                self.answer()
        except Failed as error:
            return str(error)
        return None

    def quit(self, problem: str) -> None:
        """Tells the other side how the run ended, and waits until it closes, which shows that it knows."""
        with contextlib.suppress(OSError, EOFError, Garbled):
            self.link.send("quit", {"problem": problem})
            self.link.finish()
            end = time.monotonic() + (TELL_S if problem else QUIT_S)
            while wait([self.link], max(0.0, end - time.monotonic())):
                self.link.receive()

    def kill(self) -> None:
        self.link.close()

    def _introduce(self, link: Link, address: Address, backend: str) -> bool:
        try:
            link.send("hello", {"nixl": __version__, "backend": backend})
            kind, value = link.receive()
        except (EOFError, OSError, Garbled) as error:
            raise Failed(f"what listens at {address} is no `nixl demo --listen`: {_silence(error)}") from None
        if kind == "refused" and protocol.text()(value):
            raise Failed(f"refused {self.place}: {value}")
        if kind != "welcome" or not protocol.WELCOME(value):
            raise Failed(f"what listens at {address} is no `nixl demo --listen`: it answers with '{kind}'")
        if value["nixl"] != __version__:
            raise Failed(f"{address}: {protocol.versions_differ(__version__, value['nixl'])}")
        return value["saves"]

    def _send(self, kind: str, value: Any) -> None:
        try:
            self.link.send(kind, value)
        except OSError:
            # Its last words, if there are some, say more than the error.
            raise Failed(self.death_within(0.0) or self.death()) from None
        self._sent = time.monotonic()

    def _may_answer(self, kind: str, value: Any) -> bool:
        if kind == "progress":
            return protocol.PROGRESS(value)
        if kind == "result":
            return self._order in protocol.ORDERS and protocol.ORDERS[self._order].result(value)
        return kind in ("refused", "failed") and protocol.text()(value)


Member = Process | Remote


def _silence(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it closed the connection"
    return f"no answer within {protocol.HELLO_S:g} s" if isinstance(error, TimeoutError) else str(error)


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

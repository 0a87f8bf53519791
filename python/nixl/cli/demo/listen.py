"""The side of `--listen`: decode on this host, for one run that `nixl demo --connect` drives from another."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from multiprocessing.connection import wait
from typing import Any

from ... import __version__
from .. import output
from ..table import render
from ..text import counted, one_line
from . import memory, protocol
from .address import Address, listen, of_socket, prepare
from .errors import Failed, Refused
from .link import Garbled, Link
from .member import Process
from .target import Target


def serve_one_run(args: argparse.Namespace) -> str:
    """Prints the address, waits for a peer, serves it; returns what there is to tell. Raises Refused or Failed."""
    with Target(args.out) as target:
        link, peer, backend = _await_peer(args, target)
        with contextlib.closing(link), _process(backend, args.timeout) as decode:
            session = Session(link, peer, decode, target, args.timeout)
            session.serve()
    return session.told(args.out)


def _await_peer(args: argparse.Namespace, target: Target) -> tuple[Link, Address, str]:
    """The first that introduces itself well; the others are told why they are not served, and so is the user."""
    with listen(args.listen) as listening:
        if not output.print_result("nixl demo", f"listening on {of_socket(listening.getsockname())}\n"):
            raise Failed("nobody was told the address")
        while True:
            connection, name = listening.accept()
            prepare(connection)
            peer = of_socket(name)
            try:
                backend = _greet(Link(connection, protocol.HELLO_S), args.backend, target)
            except (Failed, Garbled, EOFError, OSError) as error:
                connection.close()
                reason = str(error) or "it closed the connection"
                output.write(sys.stderr, f"nixl demo: {peer} is not served: {one_line(reason)}\n")
            except BaseException:
                connection.close()
                raise
            else:
                output.write(sys.stderr, f"serving {peer}\n")
                return Link(connection, args.timeout), peer, backend


def _greet(link: Link, wanted: str | None, target: Target) -> str:
    """Returns the backend that the peer asks for. Raises Failed with what the peer was told."""
    kind, value = link.receive()
    if kind != "hello" or not protocol.HELLO(value):
        reason = "it is no `nixl demo --connect`"
    elif value["nixl"] != __version__:
        reason = protocol.versions_differ(value["nixl"], __version__)
    elif wanted not in (None, value["backend"]):
        reason = f"--backend {value['backend']} connects and --backend {wanted} listens"
    else:
        link.send("welcome", {"nixl": __version__, "saves": target.path is not None})
        return value["backend"]
    link.send("refused", reason)
    raise Failed(reason)


@contextlib.contextmanager
def _process(backend: str, timeout_s: float):
    decode = Process("decode", backend, timeout_s, apart=True)
    try:
        yield decode
    finally:
        decode.kill()


class Session:
    """One run: the peer's orders go to decode once they are checked, and decode's answers go back."""

    def __init__(self, link: Link, peer: Address, decode: Process, target: Target, timeout_s: float) -> None:
        self._link = link
        self._peer = peer
        self._decode = decode
        self._target = target
        self._timeout_s = timeout_s
        self._given: set[str] = set()
        self._heard = time.monotonic()
        self._owed = ""  # the order whose result decode owes
        self._asked: dict[str, Any] = {}  # its arguments
        # For the user, when all is over.
        self._length = 0
        self._path = ""
        self._hashes: dict[str, str] = {}

    def serve(self) -> None:
        """Until the peer says that the run succeeded. Raises Failed; then the peer knows why if it can be told."""
        try:
            while self._one_message():
                pass
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._link.send("died", str(error) if isinstance(error, (Failed, Refused)) else "interrupted")
            raise

    def told(self, out: str | None) -> str:
        """What happened, for the user. REQUIRES: serve() returned."""
        rows = [
            ("received", f"{counted(self._length, 'byte')} from {self._peer}"),
            ("path of READ", one_line(self._path)),
            ("verified", f"yes, SHA-256 {self._hashes['read']}"),
        ]
        if out is not None:
            rows.append(("saved", one_line(out)))
        return render(rows)

    def _one_message(self) -> bool:
        """Waits for one from either side and does what it says; false after the last one."""
        patience = self._heard + self._timeout_s - time.monotonic()
        ready = wait([self._link, self._decode.link], max(0.0, patience))
        if self._decode.link in ready:
            self._answer(*self._decode.answer())
        if self._link in ready:
            kind, value = self._hear()
            self._heard = time.monotonic()
            if kind == "quit":
                self._end(value)
                return False
            if kind != "alive":
                self._order(kind, value)
        elif time.monotonic() > self._heard + self._timeout_s:
            raise Failed(f"nothing was heard from {self._peer} for {self._timeout_s:g} s")
        return True

    def _hear(self) -> tuple[str, Any]:
        try:
            return self._link.receive()
        except EOFError:
            raise Failed(f"{self._peer} broke off") from None
        except OSError as error:
            raise Failed(f"{self._peer} is out of reach: {error}") from None
        except Garbled as error:
            raise Failed(f"{self._peer} sent {error}") from None

    def _say(self, kind: str, value: Any) -> None:
        try:
            self._link.send(kind, value)
        except ConnectionError:  # it ended, which a receive would have told as well
            raise Failed(f"{self._peer} broke off") from None
        except OSError as error:
            raise Failed(f"{self._peer} is out of reach: {error}") from None

    def _order(self, name: str, arguments: Any) -> None:
        rule = protocol.ORDERS.get(name)
        if rule is None or not rule.arguments(arguments) or self._owed or (rule.once and name in self._given):
            raise Failed(f"{self._peer} gave an order that cannot be carried out now: {name[:100]}")
        self._given.add(name)
        if name == "allocate":
            self._length = arguments["length"]
            need = memory.needed(0, arguments["places"], arguments["block_bytes"])
            try:
                memory.check(need, memory.available())
            except Refused as error:
                return self._say("refused", str(error))
        elif name == "save":
            # Where to is decided on this side alone.
            if self._target.path is None:
                return self._say("refused", "nothing is saved without --out")
            arguments = {"path": self._target.path}
        self._owed, self._asked = name, arguments
        self._decode.give(name, arguments)

    def _answer(self, kind: str, value: Any) -> None:
        order = self._owed
        if kind != "progress":
            self._owed = ""
        if kind == "result":
            if order == "prepare_reads":
                self._path = ", ".join(filter(None, (value["backend"], value["path"])))
            elif order == "check":
                self._hashes[self._asked["area"]] = value
            elif order == "save":
                try:
                    self._target.keep()
                except Refused as error:
                    kind, value = "refused", str(error)
        self._say(kind, value)

    def _end(self, value: Any) -> None:
        if not protocol.QUIT(value):
            raise Failed(f"{self._peer} ended the run without a reason")
        if value["problem"]:
            raise Failed(f"{self._peer} ended the run: {value['problem']}")
        if self._owed or self._hashes.keys() != {"written", "read"} or len(set(self._hashes.values())) > 1:
            raise Failed(f"{self._peer} ended the run before the bytes were checked")

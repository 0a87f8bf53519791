"""Gives orders to the two that move the file, and notices when one dies or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from . import protocol
from .errors import Failed, Refused
from .member import Member

# When one reports a failure, the other may just have died and be the cause; so long we look for that.
LOOK_FOR_DEATH_S = 0.5

Order = tuple[str, dict[str, Any]]


class Supervisor:
    """Both members, as a context: whatever happens inside, no process is left afterwards.

    `starts` make them, in this order. `problem`: what is wrong with the result although nothing was raised.
    """

    def __init__(self, timeout_s: float, starts: Sequence[Callable[[], Member]]) -> None:
        self.problem = ""
        self._timeout_s = timeout_s
        self._starts = starts
        self._members: dict[str, Member] = {}

    def __enter__(self) -> Supervisor:
        try:
            for start in self._starts:
                member = start()
                self._members[member.role] = member
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, kind, error, _traceback) -> None:
        try:
            problem = self.problem if kind is None else _cause_of_end(error)
            for member in self._members.values():
                member.quit(problem)
        finally:
            self._kill()

    def order(
        self, orders: dict[str, Order], watch: str = "", on_progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, Any]:
        """Gives each role its order at the same time and returns their results, by role.

        `on_progress` hears how far the role `watch` is. Raises Refused or Failed: a member said so, died, or
        one that owes its result showed no progress for the time-out.
        """
        for role, (name, arguments) in orders.items():
            self._members[role].give(name, arguments)
        results: dict[str, Any] = {}
        heard = dict.fromkeys(orders, time.monotonic())  # when each role that owes a result was heard last
        while heard:
            patience = min(heard.values()) + self._timeout_s - time.monotonic()
            ready = wait([member.link for member in self._members.values()], max(0.0, min(patience, protocol.ALIVE_S)))
            now = time.monotonic()
            for member in list(self._members.values()):
                member.keep_alive()
                if member.link not in ready:
                    continue
                kind, value = member.answer()
                if member.role not in heard:
                    raise Failed(f"{member.role} answered without an order")
                heard[member.role] = now
                if kind == "result":
                    results[member.role] = value
                    del heard[member.role]
                elif kind == "refused":
                    raise Refused(": ".join(filter(None, (member.place, value))))
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

    def saves(self) -> bool:
        """Whether decode is a remote one that keeps what it received."""
        return getattr(self._members["decode"], "saves", False)

    def _cause(self, reporter: Member, text: str) -> str:
        for other in self._members.values():
            death = None if other is reporter else other.death_within(LOOK_FOR_DEATH_S)
            if death:
                return death
        return f"{' '.join(filter(None, (reporter.role, reporter.place)))} failed: {text}"

    def _hanging(self, orders: dict[str, Order], heard: dict[str, float]) -> str:
        # One that only waits for the other may be the first whose time is over; both are named then.
        silent = [role for role, at in heard.items() if time.monotonic() - at > 0.9 * self._timeout_s]
        who = " and ".join(f"{role} (in '{orders[role][0]}')" for role in silent)
        return f"no progress for {self._timeout_s:g} s by {who}; both processes were ended"

    def _kill(self) -> None:
        for member in self._members.values():
            member.kill()
        self._members.clear()


def _cause_of_end(error: BaseException) -> str:
    """Why the run ends early, for the side that only hears that it does."""
    return str(error) if isinstance(error, (Refused, Failed)) else "interrupted"

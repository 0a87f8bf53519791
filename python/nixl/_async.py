"""Waiting in event loops: those of asyncio, and others with its interface, such as uvloop.

All that the tasks of a loop wait for at an agent is woken by one descriptor, which the loop watches as long as one of
them waits. Several loops in several threads have descriptors of their own, so none takes the events of another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ._bindings import nixlInvalidParamError

if TYPE_CHECKING:
    from ._api import nixl_agent
    from ._handles import nixl_xfer_handle


class _LoopWaiters:
    """What waits in one loop for one agent; used in the loop's thread alone."""

    def __init__(self, agent: nixl_agent, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self._agent = agent
        self._loop = loop
        self._ends: dict[asyncio.Future[None], int] = {}
        self._events: set[asyncio.Future[None]] = set()
        self._watch = agent.agent.watch()
        loop.add_reader(self._watch.fileno(), self._happened)

    def close(self) -> None:
        # A loop that was closed has forgotten the descriptor already.
        with contextlib.suppress(RuntimeError):
            self._loop.remove_reader(self._watch.fileno())
        del self._watch

    async def end_of(self, handle: nixl_xfer_handle) -> None:
        """Returns once the request is not in progress. REQUIRES: it is, or has been since self was made."""
        end = self._loop.create_future()
        self._ends[end] = handle._handle
        try:
            await end
        finally:
            del self._ends[end]

    async def event(self) -> None:
        """Returns when something has happened since the last look before this call."""
        event = self._loop.create_future()
        self._events.add(event)
        try:
            await event
        finally:
            self._events.discard(event)

    def _happened(self) -> None:
        self._watch.clear()  # before the looks, so that what comes after them is an event again
        self._look()
        for event in self._events:
            if not event.done():
                event.set_result(None)

    def _look(self) -> None:
        ends = [end for end in self._ends if not end.done()]
        handles = [self._ends[end] for end in ends]
        begin = 0
        try:
            while begin < len(ends):
                position = self._agent.agent.waitAny(handles[begin:], 0)
                if position is None:
                    return
                ends[begin + position].set_result(None)
                begin += position + 1  # those before it are in progress
        except Exception as error:
            for end in ends[begin:]:
                end.set_exception(error)


@contextlib.contextmanager
def _waiters(agent: nixl_agent) -> Iterator[_LoopWaiters]:
    """Those of the running loop. The last to leave takes the descriptor with it."""
    loop = asyncio.get_running_loop()
    waiters = agent._loops.get(loop)
    if waiters is None:
        waiters = agent._loops[loop] = _LoopWaiters(agent, loop)
    waiters.users += 1
    try:
        yield waiters
    finally:
        waiters.users -= 1
        if waiters.users == 0:
            del agent._loops[loop]
            waiters.close()


def _quiet(agent: nixl_agent, handle: nixl_xfer_handle) -> bool:
    """Cancels, and tells whether local memory is quiet."""
    try:
        return agent.cancel(handle)
    except nixlInvalidParamError:
        return True  # it was released, which waits for that


async def transfer(agent: nixl_agent, handle: nixl_xfer_handle, notif_msg: str | bytes) -> str:
    """See nixl_agent.async_transfer."""
    # Entered first: once the transfer runs, nothing may fail before its end is known.
    with _waiters(agent) as waiters:
        state = agent.transfer(handle, notif_msg)
        if state != "PROC":
            return state
        try:
            await waiters.end_of(handle)
        except asyncio.CancelledError:
            while not _quiet(agent, handle):
                # Whoever cancels again has to wait as well: the memory is in use.
                with contextlib.suppress(asyncio.CancelledError):
                    await waiters.end_of(handle)
            raise
        except GeneratorExit:
            _quiet(agent, handle)  # the coroutine is thrown away and cannot wait
            raise
    return agent.check_xfer_state(handle)


class Notifications:
    """See nixl_agent.notifications."""

    def __init__(self, agent: nixl_agent, backends: Sequence[str] | None) -> None:
        self._agent = agent
        self._backends = backends

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        found = self._agent._next_notif(self._backends)
        if found is not None:
            return found
        with _waiters(self._agent) as waiters:
            while (found := self._agent._next_notif(self._backends)) is None:
                await waiters.event()
            return found

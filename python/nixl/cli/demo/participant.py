"""What both roles do: have an agent, know a peer, move blocks, exchange notifications."""

from __future__ import annotations

import os
import statistics
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Sequence

from nixl._api import nixl_agent, nixl_agent_config

from .cache import PagedCache, Report
from .errors import Failed, Refused
from .layout import request_spans

# Requests under way at a time, so that there is work while this program looks after a finished one.
IN_FLIGHT = 2

PING, PONG, LAST_PING = b"ping", b"pong", b"last ping"


class Participant:
    """One agent. Every method is an order of the supervisor; what it returns goes back there."""

    name: str
    block_size: int  # set with the memory

    def __init__(self, report: Report) -> None:
        self.report = report
        # Block i of the file belongs at place order[i] of decode's areas.
        self.order = array("i")
        self._arrived: Counter[bytes] = Counter()

    def start(self, backend: str) -> None:
        try:
            # No engine by default: the one that was asked for, or none.
            self.agent = nixl_agent(self.name, nixl_agent_config(backends=[]))
        except Exception as error:
            raise Refused(f"no agent can be created here: {error}") from error
        known = self.agent.get_plugin_list()
        if backend not in known:
            raise Refused(f"there is no backend '{backend}'; there is {', '.join(sorted(known)) or 'none'}")
        try:
            self.agent.create_backend(backend)
        except Exception as error:
            raise Refused(f"the backend {backend} cannot be used here: {error}") from error
        self.backend = backend

    def register(self, cache: PagedCache) -> None:
        self.agent.register_memory([(cache.address, cache.bytes, 0, "")], "DRAM")

    def metadata(self) -> bytes:
        return self.agent.get_agent_metadata()

    def connect(self, metadata: bytes) -> None:
        self.peer = self.agent.add_remote_agent(metadata)
        self.agent.make_connection(self.peer)

    def place_blocks(self, part: bytes) -> None:
        """Appends places, 32 bits each, to the order."""
        self.order.frombytes(part)

    # ---- Blocks -----------------------------------------------------------------------------------------

    def prepare_blocks(self, owner, address: int, blocks: int, block_bytes: int):
        """A prepared list of all blocks of a cache. `owner`: "" for the own memory, or the peer."""
        return self.agent.prep_xfer_dlist(owner, strided_row(address, block_bytes, blocks), "DRAM")

    def make_requests(self, operation: str, local, local_blocks, remote, remote_blocks) -> list:
        """Prepared requests that pair local_blocks[i] with remote_blocks[i], each with a notification of its own."""
        return [
            self.agent.make_prepped_xfer(
                operation,
                local,
                array("i", local_blocks[span.start : span.stop]),
                remote,
                array("i", remote_blocks[span.start : span.stop]),
                notification(operation, number),
            )
            for number, span in enumerate(request_spans(len(local_blocks)))
        ]

    def request_sizes(self) -> list[int]:
        return [len(span) * self.block_size for span in request_spans(len(self.order))]

    def run_requests(self, requests: Sequence, repeat: int) -> float:
        """Posts all requests, `repeat` times one after the other; returns the median of the seconds of a time."""
        sizes = self.request_sizes()
        seconds = []
        moved = 0
        for _ in range(repeat):
            began = time.perf_counter()
            under_way: deque[int] = deque()
            for number in range(len(requests) + IN_FLIGHT):
                if number < len(requests):
                    if self.agent.transfer(requests[number]) == "ERR":
                        raise Failed(f"request {number} could not be posted")
                    under_way.append(number)
                if number >= IN_FLIGHT - 1 and under_way:
                    finished = under_way.popleft()
                    self._finish(requests[finished], finished)
                    moved += sizes[finished]
                    self.report(moved)
            seconds.append(time.perf_counter() - began)
        self.explain(requests)
        return statistics.median(seconds)

    def explain(self, requests: Sequence) -> dict:
        """How the requests travel, as plain values. Raises Failed if one goes another way than was asked for."""
        told = [self.agent.explain(request) for request in requests]
        for number, (request, one) in enumerate(zip(requests, told)):
            named = self.agent.query_xfer_backend(request)
            if not one.backend == named == self.backend:
                carrier = f"{one.backend} ({one.path})" if one.backend != self.backend else named
                raise Failed(f"request {number} goes by {carrier}, not by {self.backend}")
        return {
            "backend": told[0].backend,
            "path": told[0].path,
            "reason": told[0].reason,
            "blocks_after_merging": sum(one.blocks for one in told),
            "refused": [
                {"backend": option.backend, "path": option.path, "reason": option.reason}
                for option in told[0].options
                if not option.chosen
            ],
        }

    def _finish(self, request, number: int) -> None:
        state = "PROC"

        def over() -> bool:
            nonlocal state
            state = self.agent.check_xfer_state(request)
            return state != "PROC"

        wait_until(over)
        if state != "DONE":
            raise Failed(f"request {number} ended as {state}")

    # ---- Notifications ----------------------------------------------------------------------------------

    def await_transfers(self, operation: str, repeat: int) -> None:
        """Waits until the notification of each of the peer's requests came `repeat` times."""
        sizes = self.request_sizes()
        wanted = [notification(operation, number) for number in range(len(sizes))]

        def all_there() -> bool:
            if self._collect():
                self.report(sum(self._arrived[message] * size for message, size in zip(wanted, sizes)))
            return all(self._arrived[message] >= repeat for message in wanted)

        wait_until(all_there)
        for message in wanted:
            del self._arrived[message]

    def measure_pings(self, rounds: int, limit_s: float) -> dict:
        """Microseconds that a message to the peer and its answer take; ends early after `limit_s`."""
        times: list[float] = []
        alive = SignOfLife(self.report)
        end = time.perf_counter() + limit_s
        while len(times) < rounds and (not times or time.perf_counter() < end):
            began = time.perf_counter()
            self.agent.send_notif(self.peer, PING)
            self._await(PONG)
            times.append((time.perf_counter() - began) * 1e6)
            alive.show(len(times))
        self.agent.send_notif(self.peer, LAST_PING)
        times.sort()
        return {"p50_us": statistics.median(times), "p99_us": times[len(times) * 99 // 100], "rounds": len(times)}

    def answer_pings(self) -> None:
        alive = SignOfLife(self.report)
        while self._await(PING, LAST_PING) == PING:
            self.agent.send_notif(self.peer, PONG)
            alive.show(0)

    def _await(self, *messages: bytes) -> bytes:
        """The first of `messages` that arrives."""
        while True:
            for message in messages:
                if self._arrived[message]:
                    self._arrived[message] -= 1
                    return message
            if not self._collect():
                os.sched_yield()  # a sleep would be measured too, and the peer may need this core

    def _collect(self) -> bool:
        """Takes in the peer's messages; true if there were any."""
        messages = [message for batch in self.agent.get_new_notifs().values() for message in batch]
        self._arrived.update(messages)
        return bool(messages)


class SignOfLife:
    """Reports progress now and then where a report of each step would be measured too."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = time.monotonic()

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now > self._last + 0.25:
            self._last = now
            self._report(done)


def strided_row(address: int, block_bytes: int, blocks: int) -> memoryview:
    """All blocks of a cache as one row of an N x 5 array: address, length, device, stride, count."""
    row = array("Q", [address, block_bytes, 0, block_bytes, blocks])
    return memoryview(row).cast("B").cast("Q", (1, 5))


def notification(operation: str, number: int) -> bytes:
    return f"{operation}:{number}".encode()


def wait_until(condition: Callable[[], bool]) -> None:
    """Asks often at first, for what is short, then with pauses that leave the core to those who do the work."""
    pause = 0.0
    while not condition():
        time.sleep(pause)
        pause = min(pause + 2e-6, 2e-4)

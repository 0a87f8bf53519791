"""A run of one engine: faults as the schedule says, everything reported goes to the model."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .engines import FAULTS, Engine
from .model import ARRIVAL_S, OF_NIXL, RECOVERY_S, REPORT_S, Model
from .schedule import Event
from .world import Process, World

START_S = 60.0
# A process that is not stopped reports once a second at least, unless a call of the library blocks it.
SILENT_S = 20.0
# An agent ends within 5 s; ten times that is the bound.
LEAVE_S = 50.0
DRAIN_S = 40.0
STEP_S = 0.02
AGAIN_S = 0.5


@dataclass
class Under:
    """A fault under way: what ends it, and when."""

    event: Event
    end: float
    undo: Callable[[], None]
    waiting: str = ""


@dataclass
class Trial:
    engine: Engine
    world: World
    events: list[Event]
    seconds: float
    tick: Callable[[float], None] = lambda share: None
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.model = Model(self.engine)
        self.under: list[Under] = []
        self.waits: dict[int, set[str]] = {}
        self.held: set[tuple[int, int]] = set()
        # Processes that nobody may write to at the moment.
        self.closed: set[int] = set()
        self.failed = False
        # (when, process, peer): metadata that is loaded once more.
        self.again: list[tuple[float, Process, int]] = []

    # ---- The run ----

    def run(self) -> Model:
        for index in range(len(self.engine.packages)):
            self._start(index)
        self._until(lambda: all(p.ready for p in self.world.processes.values()), START_S, "processes to start")
        begin = time.monotonic()
        left = list(self.events)
        while not self.failed and (now := time.monotonic()) < begin + self.seconds:
            event = next((event for event in left if event.start <= now - begin and self._can(event.victim)), None)
            if event:
                left.remove(event)
                self._inject(event, now)
            self._turn()
            self.tick((now - begin) / self.seconds)
        self._until(lambda: not self.under, START_S, "faults to end")
        self._settle()
        self._drain()
        return self.model

    def _settle(self) -> None:
        """After the last fault every process works with every other."""
        begin = time.monotonic()

        def rest() -> list[tuple[int, int]]:
            packages = self.engine.packages
            return [
                (one, two)
                for one in range(len(packages))
                for two in range(len(packages))
                if one != two
                and "nixl" in (packages[one], packages[two])
                and self.model.works.get((one, two), 0) < begin
            ]

        while not self.failed and rest() and time.monotonic() < begin + RECOVERY_S:
            self._turn()
        for one, two in [] if self.failed else rest():
            what = f"{self.model.name(one)}: nothing to {self.model.name(two)} succeeded"
            self.model.wrong(f"{what} in {RECOVERY_S:.0f} s after the last fault")

    def _drain(self) -> None:
        self._all(["drain"])
        self._until(lambda: self._have_all("drained"), DRAIN_S, "requests to end")
        end = time.monotonic() + ARRIVAL_S
        while not self.failed and self.model.overdue(time.monotonic(), 0.0) and time.monotonic() < end:
            self._turn()
        for text in [] if self.failed else self.model.overdue(time.monotonic(), 0.0):
            self.model.wrong(text)
        self._all(["audit"])
        self._until(lambda: self._have_all("audited"), DRAIN_S, "the audit")
        for text in self.model.grown():
            self.model.wrong(text)
        self.model.step(time.monotonic() + REPORT_S)
        # How an agent ends with everybody connected is part of the run.
        for process in self.world.processes.values():
            self.model.died(process.index, "restart", time.monotonic())
            process.leaving = True
            process.send([["leave"]])
        self._until(
            lambda: all(p.popen.poll() is not None for p in self.world.processes.values()), LEAVE_S, "agents to end"
        )
        for process in [] if self.failed else self.world.processes.values():
            self._judge_end(process)

    def _all(self, command: list) -> None:
        for process in self.world.processes.values():
            process.send([command])

    def _have_all(self, name: str) -> bool:
        return all(name in self.waits.get(index, ()) for index in self.world.processes)

    def _until(self, condition: Callable[[], bool], bound: float, what: str) -> None:
        end = time.monotonic() + bound
        while not self.failed and not condition():
            self._turn()
            if time.monotonic() > end:
                self.model.wrong(f"waited {bound:.0f} s for {what}\n{self._stacks()}")
                self.failed = True

    def _stacks(self) -> str:
        """Where every process stands."""
        for process in self.world.processes.values():
            process.signal(signal.SIGUSR1)
        time.sleep(0.5)
        return "\n".join(f"--- process {p.index}.{p.life}\n{p.errors()}" for p in self.world.processes.values())

    # ---- One turn ----

    def _turn(self) -> None:
        now = time.monotonic()
        processes = [p for p in self.world.processes.values() if p.popen.stdout and not p.popen.stdout.closed]
        select.select([p.popen.stdout for p in processes if p.popen.poll() is None], [], [], STEP_S)
        for process in processes:
            self._hear(process, now)
        for entry in [entry for entry in self.under if entry.end <= now and not entry.waiting]:
            self.under.remove(entry)
            entry.undo()
        for entry in [entry for entry in self.again if entry[0] <= now]:
            self.again.remove(entry)
            _, process, peer = entry
            if self.world.processes[process.index] is process and self.world.processes[peer].ready:
                process.send([self._introduce(self.world.processes[peer])])
        self.model.step(now)
        outgoing, self.model.outgoing = self.model.outgoing, []
        by_index: dict[int, list] = {}
        for index, life, command in outgoing:
            if self.world.processes[index].life == life:
                by_index.setdefault(index, []).append(command)
        for index, commands in by_index.items():
            self.world.processes[index].send(commands)
        for process in self.world.processes.values():
            process.flush()

    def _hear(self, process: Process, now: float) -> None:
        ended = process.popen.poll() is not None
        events = process.events()
        if events or process.stopped or not process.ready:
            process.heard = now
        for event in events:
            if handler := getattr(self, f"_on_{event[0]}", None):
                handler(process, *event[2:])
            self.model.take(process.index, process.life, event)
        if ended and not process.leaving:
            process.leaving = True
            self._own_end(process, now)
        elif not ended and not process.leaving and now - process.heard > SILENT_S:
            self.model.wrong(f"{self.model.name(process.index)} says nothing for {SILENT_S:.0f} s\n{self._stacks()}")
            self.failed = True

    def _own_end(self, process: Process, now: float) -> None:
        """Nobody told it to."""
        code = process.popen.returncode
        self.model.died(process.index, "kill", now)
        if self.engine.packages[process.index] == "nixl":
            self.model.wrong(f"{self.model.name(process.index)} ended by itself with {code}\n{process.errors()}")
            self.failed = True
            return
        # What NIXL's own process does is not judged; ours have to live with it.
        self.model.examples[f"exit code {code}"] = process.errors()
        self.model.by_fault[OF_NIXL][f"exit code {code}"] += 1
        process.end()
        self._start(process.index)

    def _judge_end(self, process: Process) -> None:
        code = process.popen.poll()
        if code and self.engine.packages[process.index] == "nixl":
            self.model.wrong(f"{self.model.name(process.index)}: left with exit code {code}\n{process.errors()}")

    # ---- What processes report ----

    def _start(self, index: int) -> None:
        process = self.world.start(index)
        process.heard = time.monotonic()
        self.waits[index] = set()
        self.held = {pair for pair in self.held if index not in pair}

    def _introduce(self, process: Process) -> list:
        name = f"process-{process.index}"
        package = self.engine.packages[process.index]
        return ["peer", process.index, name, package, process.life, process.metadata, process.inbox]

    def _talk(self, one: int, two: int) -> bool:
        """NIXL's processes are peers of ours, not of each other."""
        return one != two and "nixl" in (self.engine.packages[one], self.engine.packages[two])

    def _on_ready(self, process: Process, life: int, metadata: str, inbox: int) -> None:
        process.metadata, process.inbox, process.ready = metadata, inbox, True
        self.model.born(process.index, life, time.monotonic())
        self._publish(process)
        others = self._peers_of(process.index)
        # At once, so that nothing is begun in between.
        holds = [["hold", other.index] for other in others if other.index in self.closed]
        process.send([*(self._introduce(other) for other in others), *holds])

    def _publish(self, process: Process) -> None:
        for other in self._peers_of(process.index):
            other.send([self._introduce(process)])

    def _on_registered(self, process: Process, metadata: str, inbox: int) -> None:
        process.metadata, process.inbox = metadata, inbox
        self.waits[process.index].add("registered")
        self._publish(process)

    def _on_lost(self, process: Process, peer: int, life: int, why: str) -> None:
        """What a program does whose peer lives: it loads it again."""
        if self.world.processes[peer].life == life:
            self.again.append((time.monotonic() + AGAIN_S, process, peer))

    def _on_held(self, process: Process, peer: int) -> None:
        self.held.add((process.index, peer))

    def _on_deregistered(self, process: Process) -> None:
        self.waits[process.index].add("deregistered")

    def _on_drained(self, process: Process) -> None:
        self.waits[process.index].add("drained")

    def _on_audited(self, process: Process, slots: list, guards: list) -> None:
        self.waits[process.index].add("audited")

    def _on_failed(self, process: Process, command: str, arguments: list, error: str, text: str) -> None:
        if (
            command == "deregister"
            and error == "nixlBackendError"
            and any(p.stopped for p in self.world.processes.values())
        ):
            # Somebody who does not run is in the middle of an access: it is asked again.
            process.send([["deregister"]])
            return
        if self.engine.packages[process.index] != "nixl":
            if command == "peer":
                # NIXL connects when it loads metadata, which a fault may prevent.
                self.again.append((time.monotonic() + AGAIN_S, process, arguments[0]))
        else:
            self.model.wrong(f"{self.model.name(process.index)}: {command} {arguments} failed: {error}: {text}")

    # ---- Faults ----

    def _can(self, victim: int) -> bool:
        """On a slow machine a victim may still be busy with what came before."""
        process = self.world.processes[victim]
        return process.ready and not process.leaving and all(u.event.victim != victim for u in self.under)

    def _inject(self, event: Event, now: float) -> None:
        fault, process = FAULTS[event.fault], self.world.processes[event.victim]
        end = now + event.seconds
        if fault.network:
            window = self.model.begin(event.fault, event.victim, now)
            undo = self.world.net.apply(event.fault, event.victim)
            self.under.append(Under(event, end, lambda: (undo(), self._over(window))))
        else:
            getattr(self, f"_{event.fault}")(event, process, end, now)

    @staticmethod
    def _over(window) -> None:
        window.end = time.monotonic()

    def _stop(self, event: Event, process: Process, end: float, now: float) -> None:
        window = self.model.begin("stop", event.victim, now)
        process.stopped = True
        process.signal(signal.SIGSTOP)

        def undo() -> None:
            process.signal(signal.SIGCONT)
            process.stopped = False
            process.heard = time.monotonic()
            self._over(window)

        self.under.append(Under(event, end, undo))

    def _kill(self, event: Event, process: Process, end: float, now: float) -> None:
        window = self.model.begin("kill", event.victim, now)
        self.model.died(event.victim, "kill", now)
        process.leaving = True
        process.signal(signal.SIGKILL)
        self.under.append(Under(event, end, lambda: self._again(process, window)))

    def _again(self, process: Process, window) -> None:
        """Another life of a process that is gone."""
        self._hear(process, time.monotonic())
        process.end()
        self._start(process.index)
        self._over(window)

    def _restart(self, event: Event, process: Process, end: float, now: float) -> None:
        window = self.model.begin("restart", event.victim, now)
        self.model.died(event.victim, "restart", now)
        process.leaving = True
        process.send([["leave"]])

        def undo() -> None:
            if process.popen.poll() is None:
                if time.monotonic() < end + LEAVE_S:
                    self.under.append(Under(event, time.monotonic() + STEP_S, undo))
                    return
                self.model.wrong(f"{self.model.name(event.victim)} does not end in {LEAVE_S:.0f} s\n{self._stacks()}")
            self._judge_end(process)
            self._again(process, window)

        self.under.append(Under(event, end, undo))

    def _deregister(self, event: Event, process: Process, end: float, now: float) -> None:
        """Where the target does not refuse what is no more registered, its peers have to agree before."""
        window = self.model.begin("deregister", event.victim, now)
        index = event.victim
        known = self.waits[index]
        known -= {"deregistered", "registered"}
        if not self.engine.checked:
            self._hold(index)
        stage = "hold"

        def undo() -> None:
            nonlocal stage
            if stage == "hold" and self._is_held(index):
                process.send([["deregister"]])
                stage = "deregister"
            elif stage == "deregister" and "deregistered" in known and time.monotonic() >= end:
                process.send([["register"]])
                stage = "register"
            elif stage == "register" and "registered" in known:
                self._let_go(index)
                self._over(window)
                return
            if time.monotonic() > end + LEAVE_S:
                self.model.wrong(f"{self.model.name(index)} is still at '{stage}' of deregistering\n{self._stacks()}")
                self.failed = True
                return
            self.under.append(Under(event, time.monotonic() + STEP_S, undo))

        self.under.append(Under(event, now, undo))

    def _peers_of(self, index: int) -> list[Process]:
        return [p for p in self.world.processes.values() if p.ready and not p.leaving and self._talk(index, p.index)]

    def _hold(self, index: int) -> None:
        self.closed.add(index)
        for other in self._peers_of(index):
            self.held.discard((other.index, index))
            other.send([["hold", index]])

    def _is_held(self, index: int) -> bool:
        """One that is on its way out writes until it is gone."""
        if index not in self.closed:
            return True
        peers = [p for p in self.world.processes.values() if p.ready and self._talk(index, p.index)]
        return all((p.index, index) in self.held or p.popen.poll() is not None for p in peers)

    def _let_go(self, index: int) -> None:
        if index in self.closed:
            self.closed.discard(index)
            for other in self._peers_of(index):
                other.send([["go", index]])

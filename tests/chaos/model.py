"""What must be true of every byte, every notification and every answer, judged from what the processes report.

Pure: it reads events and times, and leaves commands for the processes in `outgoing`. Reports of two processes come in
any order; a process that was killed may not have reported what it did last.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from .engines import CANCELED, FAULTS, WITNESS, Engine
from .stamps import Stamp

# After a fault has ended, what it did to connections may show so much later.
GRACE_S = 5.0
# A restarted or reloaded peer works again within 5 s; ten times that is the bound.
RECOVERY_S = 50.0
# A notification that was sent is there by then, faults not counted.
ARRIVAL_S = 15.0
# A peer of which nothing comes for 4 s may be taken for lost. Of faults of two processes that follow each other so
# closely it may see one.
LOST_AFTER_S = 3.5
NO_REST_S = 0.5
REPORT_LOST_S = 0.5
# An end that was reported may be known before the beginning, by so much.
REPORT_S = 5.0
JUDGE_AFTER_S = 1.0
USAGE_AFTER_S = 6.0
MOST_MORE_FILES = 40
MOST_MORE_MEMORY = 128 << 20
MOST_VIOLATIONS = 50
MOST_ALIKE = 2
# Row of the report for what NIXL's own processes do.
OF_NIXL = "NIXL's own"


@dataclass
class Window:
    """A fault that happens to a process: from when, to when (None: not over)."""

    fault: str
    victim: int
    begin: float
    end: float | None = None


@dataclass
class Life:
    number: int
    born: float
    died: float | None = None
    fault: str = ""
    usage: tuple[int, int] | None = None
    most: tuple[int, int] = (0, 0)


@dataclass
class Sent:
    """state: posted; sure: the sender was told that it is sent; unknown: the sender was told of an error."""

    when: float
    slot: int
    packed: int | None
    state: str = "posted"
    got: bool = False
    missed: bool = False


@dataclass
class Lane:
    """Messages of one life of a sender to one life of a receiver, in one lane, by number."""

    sent: dict[int, Sent] = field(default_factory=dict)
    last: int = 0


@dataclass
class Counts:
    transfers: int = 0
    bytes: int = 0
    notifications: int = 0
    looks: int = 0
    statuses: Counter = field(default_factory=Counter)


class Model:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.count = len(engine.packages)
        self.lives: dict[int, Life] = {}
        self.dead: dict[tuple[int, int], Life] = {}
        self.windows: list[Window] = []
        self.lanes: defaultdict[tuple, Lane] = defaultdict(Lane)
        self.possible: dict[tuple, set[int]] = {}
        self.unjudged: deque[tuple] = deque()
        # Messages that arrived before their sender reported them, by lane.
        self.early: defaultdict[tuple, deque] = defaultdict(deque)
        # (process, process): until when requests between the two may end because a request between them was cut off.
        self.cut_off: dict[frozenset[int], float] = {}
        # The last version that a life of a writer reported, by slot.
        self.reported: dict[tuple, int] = {}
        self._said: Counter = Counter()
        self.recovering: dict[tuple[int, int], tuple[int, float]] = {}
        # (process, peer): when the first took the second, which lives, for lost; until it loaded it again.
        self.lost: dict[tuple[int, int], Window] = {}
        self.losses: deque[tuple] = deque()
        # Notifications of which a sender was told that they are not delivered.
        self.given_up: deque[tuple] = deque()
        self.works: dict[tuple[int, int], float] = {}
        self.violations: list[str] = []
        # (process, its life, command)
        self.outgoing: list[tuple[int, int, list]] = []
        self.counts = Counts()
        self.by_fault: defaultdict[str, Counter] = defaultdict(Counter)
        self.injected: Counter = Counter()
        # One message of each kind of error.
        self.examples: dict[str, str] = {}

    # ---- What the driver does ----

    def born(self, index: int, number: int, now: float) -> None:
        self.lives[index] = Life(number, now)

    def died(self, index: int, fault: str, now: float) -> None:
        """Is told before it is done."""
        life = self.lives.get(index)
        if life is None or life.died is not None:
            # It had not even begun.
            return
        life.died, life.fault = now, fault
        self.dead[index, life.number] = life
        for pair in [pair for pair in self.recovering if index in pair]:
            del self.recovering[pair]

    def begin(self, fault: str, victim: int, now: float) -> Window:
        """Is told before it is done."""
        window = Window(fault, victim, now)
        self.windows.append(window)
        self.injected[fault] += 1
        return window

    def wrong(self, text: str) -> None:
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(text)

    def name(self, index: int) -> str:
        life = self.lives.get(index)
        kind = "" if self.engine.packages[index] == "nixl" else " (NIXL's)"
        return f"process {index}.{life.number if life else 0}{kind}"

    # ---- What the processes report ----

    def take(self, index: int, life: int, event: list) -> None:
        name, when, *arguments = event
        if handler := getattr(self, f"_{name}", None):
            handler(index, life, when, *arguments)

    def _is_now(self, index: int, life: int) -> bool:
        return index in self.lives and self.lives[index].number == life and self.lives[index].died is None

    def _lane(self, sender: int, sender_life: int, receiver: int, receiver_life: int, lane: int) -> Lane:
        return self.lanes[sender, sender_life, receiver, receiver_life, lane]

    def _possible(self, owner: int, owner_life: int, sender: int, slot: int) -> set[int]:
        """What a slot may hold: the last write that is done, and those after it that may have done something."""
        never = {Stamp(sender, owner, owner_life, slot, 0).pack()}
        return self.possible.setdefault((owner, owner_life, sender, slot), never)

    def _bad(self, index: int, life: int, when: float, text: str) -> None:
        self.wrong(f"{self.name(index)}: {text}")

    def _hangs(self, index: int, life: int, when: float, peer: int, peer_life: int, kind: str, seconds: float) -> None:
        self.wrong(f"{self.name(index)}: a {kind} to process {peer}.{peer_life} has no end after {seconds:.0f} s")

    def _lost(self, index: int, life: int, when: float, peer: int, peer_life: int, why: str) -> None:
        if not self._is_now(peer, peer_life):
            return
        self.lost[index, peer] = Window("lost", peer, when - REPORT_LOST_S)
        if self._silent_for(index, peer, when) < LOST_AFTER_S:
            self.losses.append((when, index, peer, peer_life, why))

    def _judge_loss(self, when: float, index: int, peer: int, peer_life: int, why: str) -> None:
        if (peer, peer_life) not in self.dead:
            self.wrong(f"{self.name(index)}: takes process {peer}.{peer_life}, which lives, for lost: {why}")

    def _silent_for(self, index: int, peer: int, now: float) -> float:
        """How long faults, one after the other, may have kept the two from hearing of each other."""
        begin = now
        for window in reversed(self.windows):
            near = window.end is None or window.end + NO_REST_S >= begin
            ours = window.victim in (index, peer) and FAULTS[window.fault].silences
            if ours and near and window.begin < begin:
                begin = window.begin
        return now - begin

    def _was_lost(self, index: int, peer: int, begin: float, end: float) -> bool:
        lost = self.lost.get((index, peer))
        return lost is not None and lost.begin <= end and (lost.end is None or lost.end >= begin)

    def _undelivered(self, index: int, life: int, when: float, peer: int, lane: int, number: int) -> None:
        for (sender, sender_life, receiver, receiver_life, known), record in self.lanes.items():
            if (sender, sender_life, receiver, known) == (index, life, peer, lane) and number in record.sent:
                record.sent[number].state = "unknown"
                self.given_up.append((when, index, peer, receiver_life, lane, number))

    def _judge_given_up(self, when: float, index: int, peer: int, peer_life: int, lane: int, number: int) -> None:
        """Only a peer that is gone, or taken for that, may have messages that are given up."""
        gone = self.dead.get((peer, peer_life))
        if gone:
            self.by_fault[gone.fault]["undelivered"] += 1
        elif self._was_lost(index, peer, when, when + JUDGE_AFTER_S):
            self.by_fault["taken for lost"]["undelivered"] += 1
        elif self.engine.keeps_notifications:
            what = f"notification {number} in lane {lane} to process {peer}.{peer_life}, which lives"
            self.wrong(f"{self.name(index)}: gives up {what}")

    def _loaded(self, index: int, life: int, when: float, peer: int, peer_life: int) -> None:
        if (lost := self.lost.get((index, peer))) and lost.end is None:
            lost.end = when
        if self._is_now(peer, peer_life) and self._is_now(index, life):
            self.recovering[index, peer] = (peer_life, when)

    def _posted(self, index, life, when, peer, peer_life, lane, kind, slot, packed, number) -> None:
        if number is not None:
            sent = Sent(when, slot, packed if kind == "write" else None)
            self._lane(index, life, peer, peer_life, lane).sent[number] = sent
        if kind in ("write", "silent"):
            self._possible(peer, peer_life, index, slot).add(packed)
            self.reported[index, life, peer, slot] = Stamp.unpack(packed).version

    def _ended(self, index, life, when, peer, peer_life, lane, kind, slot, packed, number, status, seconds, size,
               deadline, wrong, text) -> None:  # fmt: skip
        self.counts.transfers += kind != "notify"
        self.counts.statuses[status] += 1
        if status == "DONE":
            self._done(index, when, peer, peer_life, kind, lane, slot, packed, size, seconds)
            if wrong:
                self.wrong(f"{self.name(index)}: a read of {Stamp.unpack(packed)} gave {self._told(wrong)}")
        else:
            self.examples.setdefault(f"{kind}: {status}", text)
            # What a deadline ends may cost the two their connection, and nobody else anything.
            if status == CANCELED and deadline and seconds >= 0.95 * deadline:
                self.cut_off[frozenset((index, peer))] = when + GRACE_S
            self.unjudged.append((index, when, peer, peer_life, kind, status, seconds, text))
        if number is not None and (sent := self._lane(index, life, peer, peer_life, lane).sent.get(number)):
            if sent.state == "posted":
                sent.state = "sure" if status == "DONE" else "unknown"
            sent.when = when

    def _done(self, index, when, peer, peer_life, kind, lane, slot, packed, size, seconds) -> None:
        self.counts.bytes += size
        if self.recovering.get((index, peer), (None, 0))[0] == peer_life:
            del self.recovering[index, peer]
        if self._is_now(peer, peer_life):
            # When it began: what began before a fault says nothing about after it.
            self.works[index, peer] = when - seconds
        if kind in ("write", "silent"):
            self.possible[peer, peer_life, index, slot] = {packed}
        if kind == "silent" and self._is_now(peer, peer_life):
            self.outgoing.append((peer, peer_life, ["look", index, lane, slot, packed]))

    def _judge(self, index, when, peer, peer_life, kind, status, seconds, text) -> None:
        """An error must be one that a fault of either side allows."""
        if status == "replaced":
            return
        gone = self.dead.get((peer, peer_life))
        if gone and gone.died <= when + JUDGE_AFTER_S and status in FAULTS[gone.fault].errors:
            self.by_fault[gone.fault][status] += 1
            return
        for window in reversed(self.windows):
            near = window.begin <= when and (window.end is None or window.end + GRACE_S >= when - seconds)
            if window.victim in (index, peer) and near and status in FAULTS[window.fault].errors:
                self.by_fault[window.fault][status] += 1
                return
        if self._was_lost(index, peer, when - seconds, when) and status in FAULTS["kill"].errors:
            self.by_fault["taken for lost"][status] += 1
            return
        if self.cut_off.get(frozenset((index, peer)), 0.0) >= when - seconds and status in FAULTS["cut"].errors:
            self.by_fault["deadline"][status] += 1
            return
        if self.engine.packages[index] != "nixl":
            # Whether NIXL may say so is not judged; that it works with ours again is.
            self.by_fault[OF_NIXL][status] += 1
            return
        if (key := (index, peer, kind, status)) in self._said and self._said[key] >= MOST_ALIKE:
            return
        self._said[key] += 1
        near = ", ".join(f"{w.fault} of {w.victim}" for w in self.windows if w.end is None or w.end + GRACE_S > when)
        self.wrong(
            f"{self.name(index)}: a {kind} to process {peer}.{peer_life} ended with {status} after {seconds:.2f} s, "
            f"which no fault allows (near: {near or 'nothing'}): {text}"
        )

    # ---- Notifications and bytes ----

    def _got(self, index, life, when, sender, sender_life, lane, number, slot, packed, stamps) -> None:
        queue = self.early[sender, sender_life, index, life, lane]
        queue.append((index, life, when, sender, sender_life, lane, number, slot, packed, stamps))
        self._take_early(queue, when)

    def _take_early(self, queue: deque, now: float) -> None:
        """In the order of arrival, as far as the reports of the sender go."""
        while queue:
            index, life, when, sender, sender_life, lane, number = queue[0][:7]
            record = self._lane(sender, sender_life, index, life, lane)
            if number not in record.sent and number > record.last and (sender, sender_life) not in self.dead:
                if now - when <= REPORT_S:
                    return
                self.wrong(f"{self.name(index)}: notification {number} of {sender}.{sender_life} was never sent")
            self._arrived(*queue.popleft())

    def _arrived(self, index, life, when, sender, sender_life, lane, number, slot, packed, stamps) -> None:
        record = self._lane(sender, sender_life, index, life, lane)
        what = f"{self.name(index)}: notification {number} of process {sender}.{sender_life} in lane {lane}"
        self.counts.notifications += 1
        sent = record.sent.get(number)
        if sent and sent.got:
            self.wrong(f"{what} came twice")
        elif number < record.last:
            if self.engine.packages[sender] != "nixl":
                self.by_fault[OF_NIXL]["a notification too late"] += 1
            elif sent and sent.state == "unknown" and (sender, index) in self.lost:
                # It was given up, with a peer that was taken for lost, and is still there.
                self.by_fault["taken for lost"]["a notification too late"] += 1
            else:
                self.wrong(f"{what} came after number {record.last}")
        record.last = max(record.last, number)
        if sent:
            sent.got = True
        certain = sent is not None and sent.state != "unknown" and (sender, sender_life) not in self.dead
        if packed is not None:
            self._compare(what, index, life, sender, slot, packed, stamps, certain)
            if self._is_now(sender, sender_life):
                self.outgoing.append((sender, sender_life, ["checked", index, lane, slot]))
        self._skipped(what, record, number, sender, sender_life, index)
        settled = [old for old, sent in record.sent.items() if sent.got or sent.missed or sent.state == "unknown"]
        for old in [old for old in settled if old < record.last - 100]:
            del record.sent[old]

    def _skipped(self, what, record, number, sender, sender_life, index) -> None:
        """Those before it that were sent for sure must have come."""
        for earlier, sent in record.sent.items():
            if earlier < number and not (sent.got or sent.missed) and sent.state == "sure":
                sent.missed = True
                if self._must_arrive(sender, sender_life, index, sent.when):
                    self.wrong(f"{what} came, but number {earlier}, which was sent before it, did not: it is lost")

    def _must_arrive(self, sender: int, sender_life: int, receiver: int, when: float) -> bool:
        if (sender, sender_life) in self.dead:
            return False
        if self.engine.cut_off_loses and self.cut_off.get(frozenset((sender, receiver)), 0.0) > when:
            self.by_fault["deadline"]["a notification lost"] += 1
            return False
        return self.engine.keeps_notifications or not any(
            w.victim in (sender, receiver) and (w.end is None or w.end + GRACE_S > when) for w in self.windows
        )

    def _looked(self, index, life, when, sender, lane, slot, packed, stamps) -> None:
        writer = Stamp.unpack(packed)
        self.counts.looks += 1
        if self._is_now(sender, writer.life):
            self._compare(f"{self.name(index)}: a write that was done", index, life, sender, slot, packed, stamps, True)
            self.outgoing.append((sender, writer.life, ["checked", index, lane, slot]))

    def _compare(self, what, owner, owner_life, sender, slot, packed, stamps, certain) -> None:
        if [entry[0] for entry in stamps] == [packed]:
            return
        if not certain and all(
            entry[0] == packed or self._may_be(owner, owner_life, sender, slot, entry[0]) for entry in stamps
        ):
            return
        self.wrong(f"{what}: {Stamp.unpack(packed)} is not there, but {self._told(stamps)}")

    def _may_be(self, owner: int, owner_life: int, sender: int, slot: int, packed: int) -> bool:
        """Whether a slot may hold this, also what a process had no time to report, killed or not."""
        if packed in self._possible(owner, owner_life, sender, slot):
            return True
        stamp = Stamp.unpack(packed)
        newest = self.reported.get((stamp.writer, stamp.life, owner, slot), 0)
        meant = (stamp.writer, stamp.owner, stamp.slot) == (sender, owner, slot)
        known = (sender, stamp.life) in self.dead or self._is_now(sender, stamp.life)
        return meant and known and newest < stamp.version <= newest + 2

    def _told(self, stamps) -> str:
        return ", ".join(f"{words} words of {self._stamp(packed)}" for packed, words in stamps)

    def _stamp(self, packed: int) -> str:
        stamp = Stamp.unpack(packed)
        known = stamp.writer < self.count and stamp.owner < self.count
        return str(stamp) if known else f"what nobody wrote ({packed:#x})"

    def _audited(self, index, life, when, slots, guards) -> None:
        """At the end, when nothing is under way."""
        for sender, slot, stamps in slots:
            wanted = self._possible(index, life, sender, slot)
            if sender == index:
                wanted = {Stamp(index, index, life, slot, 1).pack()}
                right = [entry[0] for entry in stamps] == list(wanted)
            else:
                right = all(self._may_be(index, life, sender, slot, entry[0]) for entry in stamps)
            if not right:
                may = " or ".join(map(self._stamp, sorted(wanted)))
                self.wrong(f"{self.name(index)}: slot {slot} of {sender} holds {self._told(stamps)}, not {may}")
        if guards:
            self.wrong(f"{self.name(index)}: bytes between slots were written to, at {guards[:5]}")

    def _usage(self, index, life, when, files, memory) -> None:
        known = self.lives[index]
        if known.number != life or when - known.born < USAGE_AFTER_S:
            return
        known.usage = known.usage or (files, memory)
        known.most = (files, memory)

    # ---- Time ----

    def step(self, now: float) -> None:
        """Bounds that have passed."""
        for queue in self.early.values():
            self._take_early(queue, now)
        # Of processes that ended by themselves the driver hears late.
        while self.losses and self.losses[0][0] + JUDGE_AFTER_S <= now:
            self._judge_loss(*self.losses.popleft())
        while self.given_up and self.given_up[0][0] + JUDGE_AFTER_S <= now:
            self._judge_given_up(*self.given_up.popleft())
        while self.unjudged and self.unjudged[0][1] + JUDGE_AFTER_S <= now:
            self._judge(*self.unjudged.popleft())
        for (index, peer), (peer_life, when) in list(self.recovering.items()):
            if now - max(when, self._calm_since(index, peer, now)) > RECOVERY_S:
                del self.recovering[index, peer]
                what = f"{self.name(index)}: nothing to process {peer}.{peer_life} succeeded"
                self.wrong(f"{what} in {RECOVERY_S:.0f} s after its metadata was loaded")

    def _calm_since(self, index: int, peer: int, now: float) -> float:
        ends = [now if w.end is None else w.end for w in self.windows if w.victim in (index, peer)]
        return max(ends, default=0.0)

    def overdue(self, now: float, bound: float = ARRIVAL_S) -> list[str]:
        """Notifications that were sent and should have been there; asked when no more are sent."""
        late = []
        for (sender, sender_life, receiver, receiver_life, lane), record in self.lanes.items():
            if not (self._is_now(sender, sender_life) and self._is_now(receiver, receiver_life)):
                continue
            for number, sent in record.sent.items():
                calm = max(sent.when, self._calm_since(sender, receiver, now))
                due = sent.state == "sure" and not (sent.got or sent.missed) and now - calm >= bound
                if due and not self._must_arrive(sender, sender_life, receiver, sent.when):
                    sent.missed = True
                elif due:
                    what = f"{self.name(receiver)}: notification {number} of {sender}.{sender_life} in lane {lane}"
                    late.append(f"{what} was sent {now - sent.when:.0f} s ago and is not there: it is lost")
        return late

    def grown(self) -> list[str]:
        """What is too much more at the end than after the first seconds, in processes that lived through all of it."""
        texts = []
        for index, life in self.lives.items():
            if life.number != 1 or life.died is not None or life.usage is None:
                continue
            files, memory = (most - first for most, first in zip(life.most, life.usage))
            if files > MOST_MORE_FILES:
                texts.append(f"{self.name(index)}: {files} more open files than after {USAGE_AFTER_S:.0f} s")
            if memory > MOST_MORE_MEMORY:
                texts.append(f"{self.name(index)}: {memory >> 20} MiB more than after {USAGE_AFTER_S:.0f} s")
        return texts

    def growth(self) -> tuple[int, int] | None:
        """(files, bytes) of the process that is never a victim."""
        life = self.lives.get(WITNESS)
        if life is None or life.usage is None:
            return None
        return life.most[0] - life.usage[0], life.most[1] - life.usage[1]

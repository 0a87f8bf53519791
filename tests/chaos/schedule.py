"""When which fault happens to whom: made from a seed, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

from .engines import FAULTS, WITNESS, Engine

# Before the first fault all processes have connected; a victim has time to be itself again.
WARM_UP = 1.0
REST = 1.0
GAP = (0.2, 1.2)
LAST = 0.5


class Event(NamedTuple):
    """Fault `fault` happens to process `victim` at second `start` of the run, for `seconds`."""

    start: float
    fault: str
    victim: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.start:7.2f} s  {self.fault:<10}  process {self.victim}  for {self.seconds:.2f} s"


def schedule(engine: Engine, faults: Iterable[str], seed: int, seconds: float) -> list[Event]:
    """Faults in the order of their start, which end `LAST` seconds before the run does.

    Every fault comes once before one comes twice. A process is the victim of one fault at a time, but several processes
    may be victims at once.
    """
    known = [name for name in engine.faults if name in set(faults)]
    dice = random.Random(f"{seed} {engine.name}")
    free_at = {victim: WARM_UP for victim in range(len(engine.packages)) if victim != WITNESS}
    events: list[Event] = []
    deck: list[str] = []
    now = WARM_UP
    while known:
        if not deck:
            deck = dice.sample(known, len(known))
        now += dice.uniform(*GAP)
        victims = [victim for victim, at in free_at.items() if at <= now]
        if not victims:
            now = min(free_at.values())
            victims = [victim for victim, at in free_at.items() if at <= now]
        victim = dice.choice(victims)
        fault = deck.pop()
        length = dice.uniform(*FAULTS[fault].seconds)
        if now + length > seconds - LAST:
            break
        events.append(Event(round(now, 3), fault, victim, round(length, 3)))
        free_at[victim] = now + length + REST
    return events

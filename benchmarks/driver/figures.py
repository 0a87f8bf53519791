"""What was measured, and the numbers that are told of it. No unit is converted after a figure is made."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

OURS, NIXL, LIMIT = "ours", "NIXL", "limit"


@dataclass(frozen=True)
class Reading:
    """How the seconds of a measurement become a row of the table.

    key: the name that the participants give the seconds. work: bytes or operations of one repetition, for units that
    are a rate; unused otherwise.
    """

    label: str
    key: str
    unit: str
    work: float = 1.0

    _PER_SECOND = {"GB/s": 1e9, "1/s": 1.0}
    _TIME = {"us": 1e6, "ms": 1e3, "ns": 1e9, "s": 1.0, "% of a core": 100.0}

    @property
    def higher_is_better(self) -> bool:
        return self.unit in self._PER_SECOND

    def figure(self, seconds: float) -> float:
        if self.higher_is_better:
            return self.work / seconds / self._PER_SECOND[self.unit]
        return seconds * self._TIME[self.unit]


@dataclass
class Row:
    """One line of the table: the figures of every participant, in rounds that alternated."""

    group: str
    case: str
    reading: Reading
    rounds: dict[str, list[list[float]]] = field(default_factory=dict)

    def add(self, participant: str, seconds: list[float]) -> None:
        self.rounds.setdefault(participant, []).append([self.reading.figure(s) for s in seconds])

    def median(self, participant: str) -> float | None:
        figures = [figure for of_round in self.rounds.get(participant, ()) for figure in of_round]
        return statistics.median(figures) if figures else None

    def spread(self, participant: str) -> tuple[float, float] | None:
        """Lowest and highest median of a round: what the machine's phases do to the figure."""
        medians = [statistics.median(figures) for figures in self.rounds.get(participant, ()) if figures]
        return (min(medians), max(medians)) if medians else None

    def times_better(self, participant: str, than: str) -> float | None:
        """How many times better one is than the other, above 1 where it is: the median over the rounds, each of which
        compares what was measured in the same phase of the machine. Of two in the middle: their geometric mean."""
        ratios = self.ratios(participant, than)
        return math.sqrt(statistics.median_low(ratios) * statistics.median_high(ratios)) if ratios else None

    def ratios(self, participant: str, than: str) -> list[float]:
        """times_better of every round."""
        ratios = []
        for mine, others in zip(self.rounds.get(participant, ()), self.rounds.get(than, ())):
            if mine and others:
                a, b = statistics.median(mine), statistics.median(others)
                if a > 0 and b > 0:
                    ratios.append(a / b if self.reading.higher_is_better else b / a)
        return ratios

    def as_dict(self) -> dict[str, object]:
        participants = {}
        for name in self.rounds:
            participants[name] = {
                "median": self.median(name),
                "spread": self.spread(name),
                "rounds": self.rounds[name],
            }
        others = [name for name in self.rounds if name != OURS]
        return {
            "group": self.group,
            "case": self.case,
            "figure": self.reading.label,
            "unit": self.reading.unit,
            "higher_is_better": self.reading.higher_is_better,
            "participants": participants,
            "times_better": {name: self.times_better(OURS, name) for name in others},
            "times_better_in_rounds": {name: self.ratios(OURS, name) for name in others},
        }

"""What a run did and found: a table per engine and fault, what was wrong, and how to repeat it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .engines import FAULTS, Engine
from .model import Model

# In a run of so many seconds for each fault all should have come; in a shorter one some may be left out.
_PER_FAULT_S = 2.5


@dataclass
class Outcome:
    """One engine. skipped: why it did not run at all. lacking: faults that cannot be had here, and why."""

    engine: Engine
    seconds: float = 0.0
    model: Model | None = None
    skipped: str = ""
    lacking: dict[str, str] = field(default_factory=dict)
    chosen: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        found = list(self.model.violations) if self.model else []
        if self.model and self.seconds >= _PER_FAULT_S * len(self.chosen):
            found += [f"fault {name} never happened" for name in self.chosen if not self.model.injected[name]]
        return found


def passed(outcomes: list[Outcome]) -> bool:
    return any(outcome.model for outcome in outcomes) and not any(outcome.violations() for outcome in outcomes)


def _statuses(counts) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "-"


def _rows(outcomes: list[Outcome]) -> list[list[str]]:
    rows = [["engine", "fault", "injected", "requests", "MiB", "notifications", "ended with"]]
    for outcome in outcomes:
        if not outcome.model:
            continue
        model = outcome.model
        counts = model.counts
        rows.append(
            [outcome.engine.name, "", str(sum(model.injected.values())), str(counts.transfers),
             str(counts.bytes >> 20), str(counts.notifications), _statuses(counts.statuses)]
        )  # fmt: skip
        others = [name for name in model.by_fault if name not in outcome.chosen]
        for name in [*outcome.chosen, *others]:
            times = str(model.injected[name]) if name in FAULTS else ""
            rows.append(["", name, times, "", "", "", _statuses(model.by_fault[name])])
    return rows


def text(outcomes: list[Outcome], replay: str) -> str:
    """Ends with PASS or FAIL and the command that repeats the run."""
    rows = _rows(outcomes)
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    for outcome in outcomes:
        if outcome.model and (growth := outcome.model.growth()):
            lines.append(f"{outcome.engine.name}: process 0 has {growth[0]:+} files, {growth[1] / 2**20:+.1f} MiB")
    for outcome in outcomes:
        if outcome.skipped:
            lines.append(f"{outcome.engine.name}: skipped: {outcome.skipped}")
        lines += [f"{outcome.engine.name}: {name} skipped: {why}" for name, why in outcome.lacking.items()]
    for outcome in outcomes:
        lines += [f"{outcome.engine.name}: WRONG: {violation}" for violation in outcome.violations()]
    lines.append(f"{'PASS' if passed(outcomes) else 'FAIL'}  again: {replay}")
    return "\n".join(lines)


def as_json(outcomes: list[Outcome], seed: int, replay: str) -> dict:
    engines = {}
    for outcome in outcomes:
        model = outcome.model
        engines[outcome.engine.name] = {
            "seconds": round(outcome.seconds, 1),
            "skipped": outcome.skipped,
            "lacking": outcome.lacking,
            "violations": outcome.violations(),
        }
        if model:
            engines[outcome.engine.name] |= {
                "requests": model.counts.transfers,
                "bytes": model.counts.bytes,
                "notifications": model.counts.notifications,
                "statuses": dict(model.counts.statuses),
                "faults": {
                    name: {"injected": model.injected[name], "ended with": dict(model.by_fault[name])}
                    for name in outcome.chosen
                },
                "growth": model.growth(),
                "examples": model.examples,
            }
    return {"passed": passed(outcomes), "seed": seed, "again": replay, "engines": engines}

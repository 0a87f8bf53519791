"""Tables of rows, for terminals and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from .figures import LIMIT, NIXL, OURS, Row

# Comparisons whose rounds differ by more than this factor are shown with their range.
UNSTEADY = 2.0
HEADINGS = ("measured", "unit", "ours", "NIXL", "ours : NIXL", "limit", "of the limit")


def number(value: float | None) -> str:
    """Three significant digits, thousands separated, no exponent."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    magnitude = abs(value)
    digits = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3
    return f"{value:,.{digits}f}"


def times(row: Row, than: str) -> str:
    return _comparison(row, than, lambda ratio: f"{number(ratio)} x")


def percent(row: Row, than: str) -> str:
    return _comparison(row, than, lambda ratio: f"{ratio:.0%}")


def _comparison(row: Row, than: str, form: Callable[[float], str]) -> str:
    """Ours against another, and the rounds' lowest and highest where these tell different stories."""
    ratio, rounds = row.times_better(OURS, than), row.ratios(OURS, than)
    if ratio is None:
        return ""
    low, high = min(rounds), max(rounds)
    return form(ratio) + (f" ({form(low)} to {form(high)})" if high > UNSTEADY * low else "")


def cells(row: Row, others: Sequence[str]) -> list[str]:
    """One line of the table; `others` are further participants, each with its figure and ours compared with it."""
    line = [f"{row.case}: {row.reading.label}", row.reading.unit]
    line += [number(row.median(OURS)), number(row.median(NIXL)), times(row, NIXL)]
    for other in others:
        line += [number(row.median(other)), times(row, other)]
    return [*line, number(row.median(LIMIT)), percent(row, LIMIT)]


def _grid(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    others = sorted({name for row in rows for name in row.rounds} - {OURS, NIXL, LIMIT})
    headings = list(HEADINGS)
    headings[5:5] = [heading for other in others for heading in (other, f"ours : {other}")]
    grid = [cells(row, others) for row in rows]
    # A column that nobody fills is not shown.
    kept = [i for i in range(len(headings)) if any(line[i] for line in grid)]
    return [headings[i] for i in kept], [[line[i] for i in kept] for line in grid]


def text(rows: Sequence[Row]) -> str:
    headings, grid = _grid(rows)
    widths = [max(len(line[i]) for line in [headings, *grid]) for i in range(len(headings))]
    lines = []
    for line in [headings, ["-" * width for width in widths], *grid]:
        aligned = [cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Row]) -> str:
    headings, grid = _grid(rows)
    rule = ["---" if i < 2 else "---:" for i in range(len(headings))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [headings, rule, *grid])


def replace_section(page: Path, group: str, content: str) -> bool:
    """Puts `content` between the page's comments `figures: GROUP` and `end of figures`. False: it has no such place."""
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- figures: {re.escape(group)} -->\n).*?(<!-- end of figures -->)", re.DOTALL)
    after, count = pattern.subn(lambda match: f"{match[1]}{content}\n{match[2]}", before, count=1)
    if count:
        page.write_text(after, encoding="utf-8")
    return bool(count)

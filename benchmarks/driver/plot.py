"""Bandwidth over block size, one panel per kind of memory and path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .cases import Case, size
from .figures import Row

Series = dict[tuple[str, str], list[tuple[int, float]]]


def panels(measured: Sequence[tuple[Case, Sequence[Row]]]) -> dict[str, Series]:
    """Per panel, per (participant, operation): points (block size, GB/s) by size."""
    found: dict[str, Series] = {}
    for case, rows in measured:
        if case.plot is None:
            continue
        panel, block = case.plot
        for row in rows:
            if row.reading.unit != "GB/s":
                continue
            for participant in row.rounds:
                points = found.setdefault(panel, {}).setdefault((participant, row.reading.label), [])
                points.append((block, row.median(participant)))
    for series in found.values():
        for points in series.values():
            points.sort()
    return found


def draw(measured: Sequence[tuple[Case, Sequence[Row]]], path: Path, subtitle: str) -> bool:
    """Writes the picture. False: nothing measured belongs to it. Needs matplotlib."""
    found = {panel: series for panel, series in panels(measured).items() if any(len(p) > 1 for p in series.values())}
    if not found:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    # Wide enough for the legend and the subtitle, also above one panel.
    figure, axes = pyplot.subplots(1, len(found), figsize=(max(10.5, 5.2 * len(found)), 4.4), squeeze=False)
    participants = list(dict.fromkeys(name for series in found.values() for name, _ in series))
    colours = dict(zip(participants, pyplot.get_cmap("tab10").colors))
    for axis, (panel, series) in zip(axes[0], found.items()):
        for (participant, operation), points in series.items():
            sizes, figures = zip(*points)
            style = "-" if operation == "WRITE" else "--"
            axis.plot(sizes, figures, style, marker="o", color=colours[participant], label=f"{participant} {operation}")
        sizes = sorted({block for points in series.values() for block, _ in points})
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sizes, [size(block) for block in sizes])
        axis.set_title(panel)
        axis.set_xlabel("block size")
        axis.grid(True, which="both", alpha=0.3)
        axis.yaxis.set_major_formatter(ticker.LogFormatter())
        axis.yaxis.set_minor_formatter(ticker.LogFormatter(minor_thresholds=(1, 0.4)))
    axes[0][0].set_ylabel("GB/s, post to done")
    figure.suptitle(subtitle, fontsize=9)
    lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="lower center", ncols=len(participants), fontsize=8)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True

"""The driver of the benchmarks is not installed; its folder is where its programs find it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from driver.figures import Reading, Row


@pytest.fixture
def row():
    """row(unit, work, ours=rounds, NIXL=rounds, ...): seconds of each participant in rounds, as a row."""

    def make(unit="us", work=1.0, group="host", case="8 x 4 KiB", **rounds):
        made = Row(group, case, Reading("WRITE", "write", unit, work))
        for name, of_rounds in rounds.items():
            for seconds in of_rounds:
                made.add(name, seconds)
        return made

    return make

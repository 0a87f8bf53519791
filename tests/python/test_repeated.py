"""Peers and metadata by the thousand, with 1,024 descriptors: what both processes hold stays as it is."""

import os
import subprocess
import sys

import pytest
import repeated
from lanes import LANES


@pytest.mark.parametrize(
    ("what", "lane", "count"),
    [("peers", "LOCAL", 1000), ("peers", "UCX", 1000), ("metadata", "LOCAL", 1000), ("metadata", "UCX", 1000)],
)
def test_nothing_is_left_behind(what, lane, count):
    done = subprocess.run(
        [sys.executable, repeated.__file__, what, lane, str(count)],
        env=os.environ | LANES[lane],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr

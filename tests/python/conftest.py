"""Fixtures of the tests of the Python package."""

import logging
import os
import sys
from pathlib import Path

import pytest

# The helpers of this folder are imported by name, also by processes that tests spawn.
sys.path.insert(0, str(Path(__file__).parent))

from agents import Pair
from demo_runs import Listener
from lanes import LANES
from peer_life import Far


@pytest.fixture
def pair():
    """Two agents of one process that know each other; see agents.Pair."""
    return Pair()


@pytest.fixture(params=LANES)
def lane(request, monkeypatch):
    """The way between processes, for agents made from now on: an engine."""
    for name, value in LANES[request.param].items():
        monkeypatch.setenv(name, value)
    return request.param


@pytest.fixture
def start(lane):
    """start(NAME, ...): a peer_life.Far that is reached in this way and does not outlive the test."""
    started = []

    def begin(name, **options):
        started.append(Far(name, lane, **options))
        return started[-1]

    yield begin
    for far in started:
        far.kill()


@pytest.fixture
def log_lines():
    """log_lines(level): texts of the lines of that level that the package logged during the test."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append((record.levelno, record.getMessage()))
    logger = logging.getLogger("nixl")
    logger.addHandler(handler)
    yield lambda level: [text for found, text in lines if found == level]
    logger.removeHandler(handler)


@pytest.fixture
def listener():
    """listener(WHERE, OPTIONS...): starts one, which does not outlive the test."""
    started = []

    def start(*arguments, **options):
        started.append(Listener(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.fixture
def file(tmp_path):
    """A file that a demo moves in a moment."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1_000_000))
    return path

"""Metadata that NIXL 1.5.1 wrote, in tests/compat/golden, is loaded by our agent; the script beside it makes it anew.

tests/unit/wire/golden_test.cc looks at every field and writes the same bytes again.
"""

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import TRANSPORTS, peer_python

FOLDER = Path(__file__).with_name("golden")
BASE = 0x1000_0000_0000
STEP = 0x10000
# (agent, ranges that are registered, ranges that are not), as make_golden.py has them.
BLOBS = {
    "full_1.blob": ("golden-one", [(BASE, 4096)], [(BASE, 4097), (BASE + STEP, 1)]),
    "full_3.blob": ("golden-three", [(BASE + 2 * STEP, 12288), (BASE + STEP + 100, 8092)], [(BASE + 4096, 1)]),
    "full_nested.blob": ("golden-nested", [(BASE, STEP), (BASE + 4096, STEP - 4096), (BASE, 1)], [(BASE, STEP + 1)]),
    "full_thread_pool.blob": ("golden-threads", [(BASE, 4096)], [(BASE, 4097)]),
    "partial_with_connection.blob": ("golden-three", [(BASE, 4096), (BASE + 2 * STEP, 12288)], [(BASE + STEP, 1)]),
    "partial_empty_list.blob": ("golden-three", [], [(BASE, 1)]),
}


@pytest.fixture
def ours(process_of):
    process = process_of("ours", "initiator", TRANSPORTS["tcp"])
    process.call("create", agent="reader", progress_thread=True, num_threads=0, params={})
    yield lambda command, **arguments: process.call(command, agent="reader", **arguments)
    process.call("drop", agent="reader")


def knows(ours, agent, ranges):
    return [ours("knows", peer=agent, descs=[(*found, 0)]) for found in ranges]


def check(ours, folder, name):
    agent, there, not_there = BLOBS[name]
    assert ours("add", blob=(folder / name).read_bytes()) == agent.encode()
    assert ours("knows", peer=agent) is True
    assert knows(ours, agent, there) == [True] * len(there)
    assert knows(ours, agent, not_there) == [False] * len(not_there)


@pytest.mark.parametrize("name", BLOBS)
def test_loaded_by_our_agent(ours, name):
    check(ours, FOLDER, name)


def test_parts_add_up(ours):
    agent = "golden-three"
    regions = [(BASE + i * STEP, 4096 * (i + 1)) for i in range(3)]
    for name, known in (
        ("partial_empty_list.blob", [False, False, False]),
        ("partial_without_connection.blob", [True, False, True]),
        ("full_3.blob", [True, True, True]),
        ("partial_with_connection.blob", [True, True, True]),
    ):
        ours("add", blob=(FOLDER / name).read_bytes())
        assert knows(ours, agent, regions) == known, name


def test_the_script_makes_them_anew(ours, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [peer_python(), FOLDER / "make_golden.py", tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in FOLDER.iterdir() if path.suffix in (".blob", ".pickle")}
    assert {path.name for path in tmp_path.iterdir()} == names
    for name in sorted(names):
        # Connections and keys differ from machine to machine; lists do not.
        if name.endswith(".pickle"):
            assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
        elif name in BLOBS and not name.startswith("partial"):
            check(ours, tmp_path, name)

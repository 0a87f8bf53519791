"""Turns, failures, the checking of bytes, and what other programs print."""

import io
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from driver import cases, micro
from driver.figures import Reading
from driver.limits import HostLimit, perftest_bandwidth
from driver.participants import Child, Failed
from driver.run import Progress, measure
from kv import blocks

CASE = cases.Case("a case", "call", {}, (Reading("WRITE", "write", "us"), Reading("READ", "read", "us")))
SIZE = 1 << 20


class Participant:
    """Writes its name into the order of calls; fails in the calls that are named."""

    def __init__(self, name, order, seconds=None, fails_at=()):
        self.name, self.order, self.calls, self.fails_at = name, order, 0, fails_at
        self.seconds = seconds or {"write": [1e-6]}

    def measure(self, case):
        self.order.append(self.name)
        self.calls += 1
        if self.calls in self.fails_at:
            raise Failed(f"{self.name} broke")
        return self.seconds


def run(participants, rounds=3):
    told = io.StringIO()
    rows = measure("host", CASE, [(p.name, p) for p in participants], rounds, Progress(rounds, told))
    return rows, told.getvalue()


def test_everybody_has_a_turn_in_every_round_and_the_first_changes():
    order = []
    rows, _ = run([Participant(name, order) for name in "abc"])
    assert "".join(order) == "abcbcacab"
    assert {name: len(of_rounds) for name, of_rounds in rows[0].rounds.items()} == {"a": 3, "b": 3, "c": 3}


def test_only_what_was_measured_becomes_a_row():
    rows, _ = run([Participant("ours", [])])
    assert [row.reading.label for row in rows] == ["WRITE"]


def test_who_fails_is_left_out_and_named_and_the_others_go_on():
    order = []
    rows, told = run([Participant("ours", order), Participant("NIXL", order, fails_at=(2,))])
    assert "a case: NIXL broke" in told
    assert len(rows[0].rounds["ours"]) == 3
    assert len(rows[0].rounds["NIXL"]) == 1
    assert order.count("NIXL") == 2


def test_progress_without_a_terminal_is_one_line_per_case():
    _, told = run([Participant("a", []), Participant("b", [])], rounds=4)
    assert told.count("\n") == 1
    assert "\r" not in told


def moved(block, at, source):
    """The target's memory after the initiator's blocks `source` came to the places `at`."""
    theirs, ours = np.empty(SIZE, np.uint8), np.empty(SIZE, np.uint8)
    blocks.fill(theirs, blocks.REMOTE)
    blocks.fill(ours, blocks.LOCAL)
    for to, come_from in zip(at, source):
        theirs[to * block : (to + 1) * block] = ours[come_from * block : (come_from + 1) * block]
    return theirs


@pytest.mark.parametrize("block", [8, 512, 66 << 10, SIZE])
def test_every_byte_is_compared(block):
    source, at = blocks.positions(SIZE // block, min(9, SIZE // block))
    data = moved(block, at, source)
    assert blocks.wrong_block(data, blocks.REMOTE, block, at, source) is None
    for place in (0, SIZE // 2 + 3, SIZE - 1):
        data[place] ^= 1
        assert blocks.wrong_block(data, blocks.REMOTE, block, at, source) == min(place // block, SIZE // block)
        data[place] ^= 1


def test_exchanged_and_missing_blocks_are_found():
    source, at = np.array([1, 2]), np.array([5, 6])
    assert blocks.wrong_block(moved(4096, at[::-1], source), blocks.REMOTE, 4096, at, source) == 5
    assert blocks.wrong_block(moved(4096, at[:1], source[:1]), blocks.REMOTE, 4096, at, source) == 6
    assert not blocks.wrong_copy(moved(4096, at, source), blocks.REMOTE, 4096, 6, 2)
    assert blocks.wrong_copy(moved(4096, at, source), blocks.REMOTE, 4096, 6, 1)


def test_both_sides_and_the_limit_take_the_same_blocks():
    first, second = blocks.positions(1000, 100), blocks.positions(1000, 100)
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    assert not np.array_equal(*first)
    assert all(np.unique(numbers).size == 100 for numbers in first)


# Answers each line with it, and has a process of its own, whose number comes first.
ECHO = """
import subprocess, sys
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def state(pid):
    """As the kernel tells it: "T" is stopped, "" gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end


def test_who_waits_for_its_turn_is_stopped_with_all_that_it_started(tmp_path):
    child = Child("echo", [sys.executable, "-c", ECHO], {}, tmp_path / "log")
    pids = child._process.pid, int(child.answer())
    for line in ("a", "b"):
        wait_for(lambda: all(state(pid) == "T" for pid in pids))
        assert child.ask(line) == f"{line}\n"
    child.close()
    wait_for(lambda: all(state(pid) in ("", "Z") for pid in pids))


def test_who_ends_is_named_with_its_last_words(tmp_path):
    child = Child("it", [sys.executable, "-c", "import sys; sys.exit('no memory')"], {}, tmp_path / "log")
    with pytest.raises(Failed, match=r"it ended \(1\): no memory"):
        child.answer()
    child.close()


# Answers as limit_host does, and keeps what it was asked. Four threads are the fastest.
YARDSTICK = """
import sys
print("1 0.5 0", flush=True)
for line in sys.stdin:
    method, threads, repetitions, block, file = line.split()
    pairs = open(file, "rb").read()
    with open(sys.argv[0] + ".asked", "a") as asked:
        print(method, threads, repetitions, block, pairs.hex(), file=asked)
    print(*[9.0] + [1 / int(threads)] * (int(repetitions) - 1), flush=True)
"""


@pytest.fixture
def yardstick(tmp_path):
    """(participant with 1 MiB, function that returns what its program was asked)"""
    program = tmp_path / "limit"
    program.write_text(f"#!{sys.executable}\n{YARDSTICK}")
    program.chmod(0o755)
    limit = HostLimit(program, 1, 4, 2, tmp_path)

    def asked():
        found = []
        for line in Path(f"{program}.asked").read_text().splitlines():
            *words, pairs = line.split()
            found.append((*words, np.frombuffer(bytes.fromhex(pairs), "<u8").reshape(-1, 2)))
        return found

    yield limit, asked
    limit.close()


def of_limit(methods, block, count):
    return cases.Case("a case", "call", {}, (), cases.Limit(methods, block, count))


def test_limit_is_the_faster_of_one_and_many_threads_without_the_first_repetition(yardstick):
    limit, asked = yardstick
    assert limit.measure(of_limit({"write": "vm_write"}, 4096, 8)) == {"write": [0.25, 0.25]}
    assert [(method, threads, repetitions) for method, threads, repetitions, *_ in asked()] == [
        ("vm_write", "1", "3"),
        ("vm_write", "4", "3"),
    ]
    assert np.array_equal(asked()[0][-1], np.stack(blocks.positions(256, 8), axis=1))
    assert limit.about["huge_pages"] == [1, 0.5] and limit.about["threads"] == 4


def test_limit_of_loopback_moves_within_the_same_halves(yardstick):
    limit, asked = yardstick
    limit.measure(of_limit({"write": "memcpy_local"}, 4096, 8))
    source, destination = blocks.positions(128, 8)
    assert np.array_equal(asked()[0][-1], np.stack([source, destination + 128], axis=1))


def test_figure_of_perftest_is_that_of_the_whole_run():
    line = " [thread 0]         2000      0.140  1520.374  1489.141      657.73     671.53         658         672\n"
    assert perftest_bandwidth("+---+\n| Test |\n" + line) == pytest.approx(671.53 * 1024 * 1024)
    with pytest.raises(Failed, match="no result"):
        perftest_bandwidth("could not connect")


def test_micro_benchmarks_become_rows():
    output = """{"benchmarks": [
        {"name": "make/8", "run_name": "make/8", "run_type": "iteration", "real_time": 2.0, "time_unit": "us"},
        {"name": "m", "run_name": "make/8/real_time", "run_type": "iteration", "real_time": 4.0, "time_unit": "us"},
        {"name": "make/8_mean", "run_name": "make/8", "run_type": "aggregate", "real_time": 9.0, "time_unit": "us"}]}"""
    (row,) = micro.rows(output)
    assert (row.case, row.median("ours")) == ("make/8", pytest.approx(3000))
    broken = '{"benchmarks": [{"name": "make/8", "error_occurred": true, "error_message": "no memory"}]}'
    with pytest.raises(Failed, match="make/8: no memory"):
        micro.rows(broken)


@pytest.mark.parametrize("scale", [cases.FULL, cases.QUICK])
def test_cases_fit_their_memory_and_have_names_of_their_own(scale):
    chosen = cases.select(cases.GROUPS, scale, ["private", "alloc"])
    assert len({(group, case.name, case.readings) for group, case in chosen}) == len(chosen)
    assert {group for group, _ in chosen} == set(cases.GROUPS) - {"micro"}
    for group, case in chosen:
        memory = cases.memory_mib(group, scale) << 20
        if case.limit:
            assert case.limit.block * case.limit.count <= memory
            keys = {reading.key for reading in case.readings}
            assert set(case.limit.methods) <= keys
        if "block" in case.arguments:
            assert case.arguments["block"] % 8 == 0
            assert case.arguments["block"] * case.arguments["count"] <= memory

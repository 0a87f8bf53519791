"""The report counts, names what was left out, and says how to repeat the run."""

import json

import pytest

from chaos.engines import ENGINES
from chaos.model import Model
from chaos.report import Outcome, as_json, passed, text

REPLAY = "./dev chaos --minutes 1 --seed 5"


@pytest.fixture
def outcome():
    engine = ENGINES["tcp"]
    model = Model(engine)
    model.counts.transfers, model.counts.bytes, model.counts.notifications = 12, 5 << 20, 7
    model.counts.statuses.update({"DONE": 11, "nixlRemoteDisconnectError": 1})
    model.injected.update({"kill": 2, "cut": 1})
    model.by_fault["kill"]["nixlRemoteDisconnectError"] = 1
    return Outcome(engine, 5.0, model, lacking={"netem": "no such module"}, chosen=["kill", "cut"])


def test_rows_per_engine_and_fault(outcome):
    lines = text([outcome], REPLAY).splitlines()
    assert lines[1].split() == "tcp 3 12 5 7 DONE 11, nixlRemoteDisconnectError 1".split()
    assert lines[2].split() == "kill 2 nixlRemoteDisconnectError 1".split()
    assert lines[3].split() == "cut 1 -".split()
    assert "tcp: netem skipped: no such module" in lines
    assert lines[-1] == f"PASS  again: {REPLAY}"


def test_what_is_wrong_fails(outcome):
    outcome.model.wrong("a byte")
    assert text([outcome], REPLAY).splitlines()[-2:] == ["tcp: WRONG: a byte", f"FAIL  again: {REPLAY}"]


def test_a_fault_that_never_came_fails_where_there_was_time(outcome):
    outcome.chosen.append("stop")
    assert passed([outcome])
    outcome.seconds = 60.0
    assert outcome.violations() == ["fault stop never happened"]


def test_nothing_that_ran_is_no_success(outcome):
    skipped = Outcome(ENGINES["peer"], skipped="no wheel")
    assert passed([outcome, skipped]) and not passed([skipped])
    assert "peer: skipped: no wheel" in text([outcome, skipped], REPLAY)


def test_json_says_the_same(outcome):
    found = json.loads(json.dumps(as_json([outcome], 5, REPLAY)))
    assert found["passed"] is True and found["seed"] == 5 and found["again"] == REPLAY
    engine = found["engines"]["tcp"]
    assert (engine["requests"], engine["bytes"], engine["notifications"]) == (12, 5 << 20, 7)
    assert engine["faults"]["kill"] == {"injected": 2, "ended with": {"nixlRemoteDisconnectError": 1}}
    assert engine["lacking"] == {"netem": "no such module"}

"""A schedule is its seed's, and nobody suffers two faults at once."""

from collections import Counter

import pytest

from chaos.engines import ENGINES, FAULTS, WITNESS
from chaos.schedule import REST, WARM_UP, schedule

SEEDS = range(20)
engines = pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)


@engines
def test_a_seed_gives_one_schedule_and_another_a_different_one(engine):
    made = [schedule(engine, FAULTS, seed, 60) for seed in (7, 7, 8)]
    assert made[0] == made[1] != made[2]


@engines
@pytest.mark.parametrize("seed", SEEDS)
def test_victims_rest_and_all_faults_end_before_the_run(engine, seed):
    events = schedule(engine, FAULTS, seed, 60)
    assert [event.start for event in events] == sorted(event.start for event in events)
    free_at = {}
    for event in events:
        assert event.victim != WITNESS and 0 <= event.victim < len(engine.packages)
        assert event.fault in engine.faults
        assert event.start >= max(WARM_UP, free_at.get(event.victim, 0)) - 0.01
        least, most = FAULTS[event.fault].seconds
        assert least - 0.01 <= event.seconds <= most + 0.01
        assert event.start + event.seconds < 60
        free_at[event.victim] = event.start + event.seconds + REST


@engines
@pytest.mark.parametrize("seed", SEEDS)
def test_faults_come_equally_often(engine, seed):
    counts = Counter(event.fault for event in schedule(engine, FAULTS, seed, 60))
    assert set(counts) == set(engine.faults)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_only_chosen_faults_come():
    assert {event.fault for event in schedule(ENGINES["tcp"], ["stop", "cut"], 1, 30)} == {"stop", "cut"}
    assert schedule(ENGINES["tcp"], [], 1, 30) == []


def test_every_engine_names_faults_that_exist():
    for engine in ENGINES.values():
        assert set(engine.faults) <= set(FAULTS)
        assert engine.cable or not any(FAULTS[fault].network for fault in engine.faults)
    # Without error handling UCX may end a process whose peer is gone.
    assert not any(FAULTS[fault].kills for fault in ENGINES["none"].faults)

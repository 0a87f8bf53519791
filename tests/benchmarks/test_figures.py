"""What the driver makes of seconds."""

import pytest
from driver.figures import Reading


@pytest.mark.parametrize(
    ("unit", "work", "seconds", "figure"),
    [
        ("us", 1, 0.002, 2000),
        ("ms", 1, 0.002, 2),
        ("ns", 1, 2e-9, 2),
        ("GB/s", 4e9, 2.0, 2.0),
        ("1/s", 1, 0.001, 1000),
        ("% of a core", 1, 0.005, 0.5),
    ],
)
def test_seconds_become_figures(unit, work, seconds, figure):
    assert Reading("x", "x", unit, work).figure(seconds) == pytest.approx(figure)


def test_median_is_that_of_all_repetitions(row):
    assert row("us", ours=[[1e-6, 9e-6], [2e-6], [3e-6, 100e-6]]).median("ours") == pytest.approx(3)


def test_who_was_not_measured_has_no_figure(row):
    it = row("us", ours=[[1e-6]])
    assert it.median("NIXL") is None
    assert it.spread("NIXL") is None
    assert it.times_better("ours", "NIXL") is None


def test_spread_is_between_rounds_not_repetitions(row):
    assert row("us", ours=[[1e-6, 2e-6, 900e-6], [5e-6]]).spread("ours") == pytest.approx((2, 5))


def test_better_is_above_one_for_times_and_for_rates(row):
    assert row("us", ours=[[1e-6]], NIXL=[[4e-6]]).times_better("ours", "NIXL") == pytest.approx(4)
    assert row("GB/s", 1e9, ours=[[1]], NIXL=[[4]]).times_better("ours", "NIXL") == pytest.approx(4)
    assert row("GB/s", 1e9, ours=[[8]], NIXL=[[4]]).times_better("ours", "NIXL") == pytest.approx(0.5)


def test_a_slow_phase_of_the_machine_does_not_count_in_the_comparison(row):
    """Ours is twice as fast in every round; pooled medians would say otherwise."""
    it = row("us", ours=[[1e-6], [10e-6], [10e-6]], NIXL=[[2e-6], [20e-6], [20e-6]])
    assert it.times_better("ours", "NIXL") == pytest.approx(2)
    uneven = row("us", ours=[[10e-6], [10e-6], [1e-6]], NIXL=[[20e-6], [20e-6]])
    assert uneven.times_better("ours", "NIXL") == pytest.approx(2)


def test_one_odd_round_of_two_does_not_decide(row):
    assert row("us", ours=[[1e-6], [1e-6]], NIXL=[[1e-6], [100e-6]]).times_better("ours", "NIXL") == pytest.approx(10)


def test_nothing_measured_in_no_time_is_not_compared(row):
    assert row("us", ours=[[0.0]], NIXL=[[1e-6]]).times_better("ours", "NIXL") is None


def test_json_names_everything(row):
    found = row("GB/s", 2e9, ours=[[1.0], [2.0]], NIXL=[[4.0], [4.0]], limit=[[1.0], [1.0]]).as_dict()
    assert (found["group"], found["case"], found["figure"], found["unit"]) == ("host", "8 x 4 KiB", "WRITE", "GB/s")
    assert found["higher_is_better"] is True
    assert found["participants"]["ours"] == {"median": 1.5, "spread": (1.0, 2.0), "rounds": [[2.0], [1.0]]}
    assert found["times_better"] == {"NIXL": pytest.approx(8**0.5), "limit": pytest.approx(0.5**0.5)}
    assert found["times_better_in_rounds"]["NIXL"] == [pytest.approx(4), pytest.approx(2)]

"""Transfers that end before they are done: released, cancelled, out of time, with a peer that is stopped."""

import time

import pytest
from agents import wait_until
from lanes import LANES
from nixl._bindings import nixlCancelledError, nixlRepostActiveError
from two_processes import FILL, MODES, TwoProcesses

MIB = 1 << 20
NBYTES = 256 * MIB


@pytest.fixture
def both(request, monkeypatch):
    """both(**config): over UCX, TCP; or over request.param of LANES."""
    for name, value in LANES[getattr(request, "param", "UCX")].items():
        monkeypatch.setenv(name, value)
    made = []

    def make(**config):
        made.append(TwoProcesses(NBYTES, config))
        return made[-1]

    yield make
    for one in made:
        one.close()


def release(handle, limit=10 * 5):
    """Releases it, however often it is refused, and returns how long that took."""
    begin = time.monotonic()
    while True:
        try:
            handle.release()
            return time.monotonic() - begin
        except nixlRepostActiveError:
            assert time.monotonic() - begin < limit


def assert_untouched(memory, seconds=0.3):
    """Nothing writes to memory that was given back."""
    memory[:] = 0xEE
    time.sleep(seconds)
    assert (memory == 0xEE).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 4096])
def test_after_a_release_nothing_lands(both, mode, count):  # C02
    pair = both(**MODES[mode])
    for _ in range(3):
        handle = pair.request("READ", 64 * MIB, count)
        pair.agent.transfer(handle)
        release(handle)
        assert_untouched(pair.memory[: 64 * MIB])
    assert pair.run(pair.request("READ", 64 * MIB, count)) == "DONE"
    assert (pair.memory[: 64 * MIB] == FILL).all()


@pytest.mark.parametrize("mode", MODES)
def test_cancel_is_over_when_memory_is_quiet(both, mode):
    pair = both(**MODES[mode])
    handle = pair.request("READ", NBYTES)
    pair.agent.transfer(handle)
    assert not pair.agent.is_quiet(handle)
    pair.agent.cancel(handle)
    with pytest.raises(nixlCancelledError, match="cancelled by the program"):
        while pair.agent.check_xfer_state(handle) == "PROC":
            pass
    assert pair.agent.is_quiet(handle) and pair.agent.cancel(handle)
    assert_untouched(pair.memory)
    assert pair.run(handle) == "DONE", "it can be posted again"
    assert (pair.memory == FILL).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", ["READ", "WRITE"])
def test_a_stopped_peer_cannot_hold_a_transfer_beyond_its_time(both, mode, operation):  # C05
    pair = both(**MODES[mode])
    pair.memory[:] = 9
    assert pair.run(pair.request(operation, MIB)) == "DONE"
    handle = pair.request(operation, NBYTES)
    begin = time.monotonic()
    pair.stop()
    assert pair.agent.transfer(handle, timeout=2) == "PROC"
    with pytest.raises(nixlCancelledError, match="not done after 2000 ms.*'target'"):
        while pair.agent.check_xfer_state(handle) == "PROC":
            time.sleep(0.001)
    assert 2 <= time.monotonic() - begin < 10 * 2
    # The program uses its memory for something else, and the peer goes on.
    pair.memory[:] = 0xEE
    time.sleep(1)
    pair.resume()
    time.sleep(1)
    assert (pair.memory == 0xEE).all()
    held = pair.ask("contents")
    assert set(held) <= {FILL, 9}, "bytes of after the cancel"
    # It is connected with again by itself.
    assert pair.run(pair.request("WRITE", MIB)) == "DONE"
    assert pair.ask("contents")[0xEE] == MIB


def test_without_a_deadline_a_stopped_peer_is_waited_for(both):  # C05
    pair = both()
    handle = pair.request("READ", NBYTES)
    pair.stop()
    assert pair.agent.transfer(handle) == "PROC"
    time.sleep(3)
    assert pair.agent.check_xfer_state(handle) == "PROC"
    pair.resume()
    wait_until(lambda: pair.agent.check_xfer_state(handle) == "DONE", "the end of the transfer")
    assert (pair.memory == FILL).all()


@pytest.mark.parametrize("both", ["LOCAL"], indirect=True)
@pytest.mark.parametrize("operation", ["READ", "WRITE"])
def test_a_stopped_peer_of_this_host_is_no_hindrance(both, operation):
    pair = both()
    assert pair.run(pair.request(operation, MIB)) == "DONE"
    pair.stop()
    assert pair.run(pair.request(operation, NBYTES, 4096)) == "DONE"
    handle = pair.request(operation, NBYTES)
    pair.agent.transfer(handle)
    release(handle)
    assert_untouched(pair.memory)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_ends_with_transfers_to_a_stopped_peer(both, mode):  # C09
    pair = both(**MODES[mode])
    assert pair.run(pair.request("READ", MIB)) == "DONE"
    pair.stop()
    handles = [pair.request("WRITE", 64 * MIB) for _ in range(200)]
    for handle in handles:
        assert pair.agent.transfer(handle) == "PROC"
    begin = time.monotonic()
    handles.clear()
    del handle
    pair.agent = None
    assert time.monotonic() - begin < 10 * 5


def test_a_timeout_that_cannot_be(both):
    pair = both()
    handle = pair.request("READ", MIB)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            pair.agent.transfer(handle, timeout=wrong)
    for endless in (0, float("inf"), 1e300):
        assert pair.run(handle) == "DONE"
        assert pair.agent.transfer(handle, timeout=endless) in ("DONE", "PROC")
        while pair.agent.check_xfer_state(handle) == "PROC":
            pass

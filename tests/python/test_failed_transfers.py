"""Transfers that fail at their initiator: what it sees, and what their target hears of it."""

import time

import numpy as np
import pytest
from lanes import LANES
from nixl._bindings import nixlCancelledError, nixlNotFoundError
from two_processes import TwoProcesses

MIB = 1 << 20
NBYTES = 256 * MIB

# What is promised on one host is a second; a test on a busy machine waits for ten.
TOLD_WITHIN_S = 10


@pytest.fixture(params=LANES)
def both(request, monkeypatch):
    for name, value in LANES[request.param].items():
        monkeypatch.setenv(name, value)
    pair = TwoProcesses(NBYTES)
    yield pair
    pair.close()


def hear(both, count):
    """What the target has heard when `count` transfers are accounted for: messages, and failures by message."""
    both.begin("outcomes", count, TOLD_WITHIN_S)
    messages, failures = both.end()
    assert {peer for peer, _, _ in failures} <= {"initiator"}
    return messages, {message: why for _, message, why in failures}


def end_by(way, both, handle):
    if way == "release":
        handle.release()
        return
    if way == "cancel":
        both.agent.cancel(handle)
    with pytest.raises(nixlCancelledError):
        while both.agent.check_xfer_state(handle) == "PROC":
            pass


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
@pytest.mark.parametrize("way", ["cancel", "release", "deadline"])
def test_the_target_hears_of_a_transfer_that_ends_midway(both, way, operation):  # C43
    handles = [both.request(operation, NBYTES if k == 2 else MIB, message=b"block %d" % k) for k in range(4)]
    for k, handle in enumerate(handles):
        if k != 2:
            assert both.run(handle) == "DONE"
            continue
        assert both.agent.transfer(handle, timeout=0.001 if way == "deadline" else None) == "PROC"
        end_by(way, both, handle)
    messages, failures = hear(both, 4)
    assert messages == [b"block 0", b"block 1", b"block 3"]
    assert list(failures) == [b"block 2"] and "cancel" in failures[b"block 2"]
    if way != "release":
        assert both.run(handles[2]) == "DONE", "the next run brings the message"
        assert hear(both, 1) == ([b"block 2"], {})


def test_the_target_hears_of_a_transfer_to_memory_that_is_gone(both):  # C43
    handles = [both.request("WRITE", MIB, message=b"block %d" % k) for k in range(2)]
    assert both.run(handles[0]) == "DONE"
    both.ask("deregister")
    with pytest.raises(nixlNotFoundError) as failed:
        both.run(handles[1])
    assert "'target'" in str(failed.value)
    messages, failures = hear(both, 2)
    assert messages == [b"block 0"] and list(failures) == [b"block 1"] and failures[b"block 1"]


def test_a_post_that_is_refused_is_the_initiators_to_tell(both):  # C43
    """Nothing was started: the error comes at once and says what is wrong."""
    other = np.zeros(MIB, np.uint8)
    regions = both.agent.register_memory([(other.ctypes.data, MIB, 0, "")], "DRAM")
    remote = both.agent.get_xfer_descs([(both.there, MIB, 0)], "DRAM")
    local = regions.trim()
    handle = both.agent.initialize_xfer("WRITE", local, remote, both.peer, b"block 0")
    assert both.run(handle) == "DONE"
    both.agent.deregister_memory(regions)
    begin = time.monotonic()
    with pytest.raises(nixlNotFoundError, match="registration of DRAM_SEG.*of this agent has ended"):
        both.agent.transfer(handle, b"block 1")
    with pytest.raises(nixlNotFoundError, match="DRAM_SEG"):
        both.agent.initialize_xfer("WRITE", local, remote, both.peer, b"block 1")
    assert time.monotonic() - begin < TOLD_WITHIN_S
    both.agent.send_notif(both.peer, b"block 1 does not come")
    assert hear(both, 2) == ([b"block 0", b"block 1 does not come"], {})


def test_failures_are_told_while_many_transfers_end(both):
    """Each message is accounted for: it came, or its failure did. What is cancelled after its data was moved may bring
    its message all the same."""
    handles = [both.request("WRITE", 8 * MIB, message=b"%d" % k) for k in range(64)]
    for handle in handles:
        both.agent.transfer(handle)
    for handle in handles[::2]:
        both.agent.cancel(handle)
    done = []
    for k, handle in enumerate(handles):
        try:
            while both.agent.check_xfer_state(handle) == "PROC":
                pass
            done.append(b"%d" % k)
        except nixlCancelledError:
            pass
    messages, failures = hear(both, len(handles))
    assert set(done) <= set(messages) and len(set(messages)) == len(messages)
    assert set(messages) | set(failures) == {b"%d" % k for k in range(64)}

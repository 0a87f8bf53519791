"""Targets that are killed, and come back: what the initiator and its other peers see of it."""

import os
import signal
import threading
import time

import pytest
from agents import finish, wait_until
from nixl._bindings import nixlNotFoundError, nixlRemoteDisconnectError
from peer_life import Near, descriptors
from two_processes import MODES

MIB = 1 << 20

# What is promised on one host is a second; a test on a busy machine waits for ten.
TOLD_WITHIN_S = 10
# Of the test of restarts: initiators, targets beside the victim, its lives.
RESTARTS = (4, 3, 50) if "TEST_FULL" in os.environ else (2, 2, 8)


def poll_to_the_end(near, handle):
    """The exception that the transfer ends with, or None; in time."""
    begin = time.monotonic()
    while time.monotonic() - begin < TOLD_WITHIN_S:
        try:
            if near.agent.check_xfer_state(handle) != "PROC":
                return None
        except nixlRemoteDisconnectError as error:
            return error
    raise AssertionError(f"in progress {TOLD_WITHIN_S} s after the target died")


def post_until_it_fails(near, handle):
    """A run may have been done before the target was gone; then the next one fails."""
    end = time.monotonic() + TOLD_WITHIN_S
    while time.monotonic() < end:
        try:
            near.agent.transfer(handle)
        except nixlRemoteDisconnectError as error:
            return error
        error = poll_to_the_end(near, handle)
        if error:
            return error
    raise AssertionError(f"transfers are done {TOLD_WITHIN_S} s after the target died")


class DyingTarget:
    """A target that dies beside one that lives; `config` says how the initiator is driven."""

    def __init__(self, lane, start, config, block=4096):
        self.near = Near(lane, block=block, **config)
        self.start, self.block = start, block
        self.far = self.begin("far", seed=2)
        self.other = self.begin("other", seed=3)
        self.handle = self.near.write(self.far)
        self.innocent = self.near.write(self.other)

    def begin(self, name, seed):
        far = self.start(name, seed=seed, block=self.block)
        far.register()
        self.near.learn(far)
        return far

    def assert_all_is_well(self, error):
        """After the end with `error`."""
        near, agent = self.near, self.near.agent
        assert "'far'" in str(error), "it names the peer"
        assert agent.is_quiet(self.handle)
        wait_until(lambda: near.kinds("far") == ["joined", "lost"], "the loss of a peer")
        with pytest.raises(nixlNotFoundError, match="far.*lost"):
            agent.transfer(self.handle)
        self.handle.release()
        assert near.kinds("far") == ["joined", "lost"]
        near.run(self.innocent)
        assert near.wrote(self.other)
        again = self.begin("far", seed=4)
        near.run(near.write(again))
        assert near.wrote(again)
        assert near.kinds("far") == ["joined", "lost", "joined"] and near.kinds("other") == ["joined"]


@pytest.fixture(params=MODES)
def dying(request, lane, start):
    """dying(**options): a DyingTarget, for every way to drive the initiator."""
    return lambda **options: DyingTarget(lane, start, MODES[request.param], **options)


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "never met"])
def test_a_target_dies_before_a_post(dying, connected):  # C06 (a)
    case = dying()
    if connected:
        case.near.run(case.handle)
    case.far.kill()
    case.assert_all_is_well(post_until_it_fails(case.near, case.handle))


def test_a_target_dies_in_the_middle_of_a_transfer(dying):  # C06 (b)
    case = dying(block=32 * MIB)
    assert case.near.agent.transfer(case.handle) == "PROC"
    os.kill(case.far.process.pid, signal.SIGKILL)
    error = poll_to_the_end(case.near, case.handle) or post_until_it_fails(case.near, case.handle)
    case.assert_all_is_well(error)


def test_a_target_dies_after_a_transfer(dying):  # C06 (c)
    case = dying()
    case.near.run(case.handle)
    case.far.kill()
    assert case.near.agent.check_xfer_state(case.handle) == "DONE", "that run is over"
    case.assert_all_is_well(post_until_it_fails(case.near, case.handle))


class Traffic:
    """One transfer after another, until it is stopped or one fails."""

    def __init__(self, near, far):
        self.near, self.handle = near, near.write(far)
        self.done, self.error = 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        try:
            while not self.stopping.is_set():
                self.near.agent.transfer(self.handle)
                finish(self.near.agent, self.handle)
                self.done += 1
        except Exception as error:
            self.error = error

    def await_more(self, count=2):
        aim = self.done + count
        wait_until(lambda: self.done >= aim or self.error, "transfers")
        assert self.error is None

    def join(self, seconds=TOLD_WITHIN_S):
        self.thread.join(seconds)
        assert not self.thread.is_alive()

    def end(self):
        self.stopping.set()
        self.join()
        self.handle.release()


def test_a_target_that_is_restarted_again_and_again_disturbs_nobody(lane, start):  # C25
    near_count, bystander_count, lives = RESTARTS
    initiators = [Near(lane, f"near {number}", block=MIB // 4) for number in range(near_count)]

    def meet(name, seed):
        far = start(name, seed=seed, block=MIB // 4)
        far.register()
        for near in initiators:
            near.learn(far)
        return far

    bystanders = [meet(f"bystander {number}", seed=2) for number in range(bystander_count)]
    innocent = [Traffic(near, far) for near in initiators for far in bystanders]
    held = []
    for life in range(lives):
        victim = meet("victim", seed=3 + life)
        hit = [Traffic(near, victim) for near in initiators]
        for traffic in hit + innocent:
            traffic.await_more()
        assert all(near.wrote(victim) for near in initiators)
        victim.kill()
        for traffic in hit:
            traffic.join()
            assert isinstance(traffic.error, nixlRemoteDisconnectError | nixlNotFoundError), traffic.error
            assert "'victim'" in str(traffic.error)
            traffic.handle.release()
        for near in initiators:
            wait_until(lambda near=near: "lost" in near.kinds("victim")[-1:], "the loss of a peer")
        for traffic in innocent:
            traffic.await_more()
        held.append(descriptors())
    for traffic in innocent:
        traffic.end()
    for near in initiators:
        assert near.kinds("victim") == lives * ["joined", "lost"]
        assert all(near.kinds(far.name) == ["joined"] for far in bystanders)
    assert max(held[1:]) <= held[0], "nothing of a dead peer is kept"

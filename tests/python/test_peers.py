"""Peers that come, change, die and return: real processes, within the host and over TCP."""

import time

import nixl
import pytest
from agents import wait_until
from nixl import _bindings as nixlBind
from peer_life import Near, descriptors

# What is promised is a second; a test on a busy machine waits for ten.
TOLD_WITHIN_S = 10


@pytest.fixture
def near(lane):
    return Near(lane)


def wait_for_loss(near, name):
    began = time.monotonic()
    wait_until(lambda: "lost" in near.kinds(name), "the loss of a peer")
    assert time.monotonic() - began < TOLD_WITHIN_S


def test_death_of_an_idle_peer_is_told(near, start, lane):
    first, second = start("first"), start("second")
    for far in (first, second):
        far.register()
        near.learn(far)
    handle, other = near.write(first), near.write(second)
    near.run(handle)
    near.run(other)
    assert near.kinds("first") == near.kinds("second") == ["joined"]
    before = time.time()
    first.kill()
    wait_for_loss(near, "first")
    (loss,) = [event for event in near.seen if event.kind == "lost"]
    assert before <= loss.time <= time.time() and loss.dropped == 0
    assert "first" in loss.why and ("its process has ended" in loss.why or lane == "UCX")
    with pytest.raises(nixlBind.nixlNotFoundError, match="lost"):
        near.agent.transfer(handle)
    with pytest.raises(nixlBind.nixlNotFoundError):
        near.agent.send_notif("first", b"x")
    near.run(other)
    near.agent.send_notif("second", b"x")
    assert near.kinds("second") == ["joined"], "others are not touched"

    again = start("first", seed=3)
    again.register()
    near.learn(again)
    near.run(near.write(again))
    assert near.wrote(again)
    assert near.kinds("first") == ["joined", "lost", "joined"]


def test_death_during_a_transfer_is_told_once(near, start, lane):
    far = start("far")
    far.register()
    near.learn(far)
    handle = near.write(far)
    near.run(handle)
    far.stop()
    if lane == "UCX":  # copies within the host need no help of a stopped process
        assert near.agent.transfer(handle) == "PROC"
        time.sleep(0.05)
        assert near.agent.check_xfer_state(handle) == "PROC"
        assert near.kinds("far") == ["joined"], "stopped is not lost"
    far.kill()
    if lane == "UCX":
        with pytest.raises(nixlBind.nixlRemoteDisconnectError):
            wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the end of a transfer")
        near.agent.release_xfer_handle(handle)
    else:
        with pytest.raises((nixlBind.nixlRemoteDisconnectError, nixlBind.nixlNotFoundError)):
            near.agent.transfer(handle)
    wait_for_loss(near, "far")
    time.sleep(0.1)
    assert near.kinds("far") == ["joined", "lost"]


def test_a_peer_that_ends_in_order_is_lost_too(near, start):
    far = start("far")
    far.register()
    near.learn(far)
    near.run(near.write(far))
    far.ask("end")
    wait_for_loss(near, "far")


def test_an_old_handle_after_the_peer_came_back(near, start):
    """C07: the name is the same, the life is not."""
    far = start("far")
    far.register()
    near.learn(far)
    old = near.write(far)
    local = near.agent.prep_xfer_dlist("", near.memory.descs(), "DRAM")
    old_list = near.agent.prep_xfer_dlist("far", far.blocks(), "DRAM")
    near.run(old)
    far.kill()
    wait_for_loss(near, "far")
    again = start("far", seed=3)
    again.register()
    near.learn(again)
    before = again.ask("content")
    for call in (near.agent.transfer, near.agent.estimate_xfer_cost):
        with pytest.raises(nixlBind.nixlNotFoundError, match="far"):
            call(old)
    with pytest.raises(nixlBind.nixlNotFoundError, match="far"):
        near.agent.make_prepped_xfer("WRITE", local, [0], old_list, [0])
    assert near.agent.check_xfer_state(old) == "DONE", "what its last run came to"
    assert again.ask("content") == before
    fresh = near.write(again)
    assert near.agent.estimate_xfer_cost(fresh)[0] > 0
    near.run(fresh)
    assert near.wrote(again)
    near.agent.release_xfer_handle(old)
    near.run(fresh)


def test_publishing_before_registering_and_updating_later(near, start):
    """C23: the second metadata adds, the connection stays."""
    far = start("far")
    near.learn(far)
    assert not near.agent.check_remote_metadata("far", near.agent.get_xfer_descs([(4096, 8, 0)], "DRAM"))
    far.register(0, 4)
    near.learn(far)
    handle = near.write(far, 0, 4)
    near.run(handle)
    assert near.wrote(far, 0, 4)
    connected = descriptors()
    far.register(4, 4)
    near.learn(far)
    near.run(near.write(far, 4, 4))
    assert near.wrote(far, 0, 8)
    near.run(handle)
    assert near.kinds("far") == ["joined", "updated", "updated"]
    assert descriptors() <= connected, "the connection is used again"


def test_partial_metadata_adds(near, start):
    far = start("far")
    near.agent.add_remote_agent(far.ask("partial", True))  # connections alone
    for first in (0, 4):
        far.register(first, 4)
        near.agent.add_remote_agent(far.ask("partial", False, (first, 4)))
        near.run(near.write(far, first, 4))
    assert near.wrote(far, 0, 8)
    assert near.kinds("far") == ["joined", "updated", "updated"]


def test_reloading_adds_replaces_and_drops_without_leaking(near, start):
    far = start("far")
    far.register(0, 4)
    near.learn(far)
    near.run(near.write(far, 0, 4))
    connected = 0
    for _round in range(20):
        far.register(4, 4)
        near.learn(far)
        handle = near.write(far, 4, 4)
        near.run(handle)
        far.ask("deregister", 4, 4)
        near.learn(far)  # the registration is gone
        with pytest.raises(nixlBind.nixlNotFoundError):
            near.write(far, 4, 4)
        with pytest.raises(nixlBind.nixlNotFoundError):
            near.agent.transfer(handle)
        near.agent.release_xfer_handle(handle)
        far.ask("deregister", 0, 4)  # the same range, another registration
        far.register(0, 4)
        near.learn(far)
        near.run(near.write(far, 0, 4))
        connected = connected or descriptors()
    assert descriptors() <= connected
    assert near.kinds("far") == ["joined"] + 3 * 20 * ["updated"]


def test_the_end_of_an_agent_in_this_process_is_told():
    near = Near("LOCAL")
    far = nixl.nixl_agent("far", nixl.nixl_agent_config(backends=["LOCAL"]))
    far.register_memory([near.memory.region], "DRAM")
    near.agent.add_remote_agent(far.get_agent_metadata())
    near.agent.make_connection("far")
    del far
    assert near.events("far") == [("joined", "its metadata was loaded"), ("lost", "agent 'far' has ended")]
    assert repr(near.seen[-1]) == "<nixlPeerEvent far lost: agent 'far' has ended>"
    assert near.agent.peer_events() == []


def test_forgetting_a_peer_is_told_as_leaving(near, start):
    far = start("far")
    far.register(0, 1)
    near.learn(far)
    near.run(near.write(far, 0, 1))
    near.agent.remove_remote_agent("far")
    far.kill()
    time.sleep(0.2)
    assert near.events("far")[1:] == [("left", "the program removed it")]

"""Peers within the host that stop, go on and die: what the program hears of them and of its messages."""

import time

import pytest
from agents import wait_until
from nixl import _bindings as nixlBind
from peer_life import Far, Near

# What is promised is three seconds; a test on a busy machine waits for ten times that.
STALLED_WITHIN_S = 30


@pytest.fixture
def far():
    process = Far("far", "LOCAL")
    process.register()
    yield process
    process.kill()


@pytest.fixture
def near(far, monkeypatch):
    monkeypatch.setenv("NIXL_PEER_EVENTS", "10000")  # one for each message that is lost
    agent = Near("LOCAL")
    agent.learn(far)
    agent.agent.make_connection("far")
    return agent


def wait_for_event(near, kind):
    wait_until(lambda: kind in near.kinds("far"), kind)


def undelivered(near):
    near.events("far")
    return [event.message for event in near.seen if event.kind == "undelivered"]


def test_a_stopped_process_is_stalled_and_resumes(near, far):
    began = time.monotonic()
    far.stop()
    wait_for_event(near, "stalled")
    assert 1 < time.monotonic() - began < STALLED_WITHIN_S
    assert "its process may be stopped" in near.events("far")[-1][1]
    near.run(near.write(far))  # copies need nothing of it
    messages = [b"%d" % i for i in range(500)]
    for message in messages:
        near.agent.send_notif("far", message)
    far.go_on()
    wait_for_event(near, "resumed")
    assert far.ask("notifs")["near"] == messages
    assert near.kinds("far") == ["joined", "stalled", "resumed"]
    assert near.wrote(far)


def test_a_killed_process_took_in_some_messages(near, far):
    for i in range(100):
        near.agent.send_notif("far", b"%d" % i)
    wait_until(lambda: far.ask("notifs"), "notifs")
    near.agent.send_notif("far", b"the last that is taken in")
    wait_until(lambda: b"the last that is taken in" in far.ask("notifs").get("near", []), "the last message")
    far.stop()
    lost = [b"lost %d" % i for i in range(2000)]
    for message in lost:
        near.agent.send_notif("far", message)
    handle = near.write(far)
    near.agent.transfer(handle, b"of a transfer")
    wait_until(lambda: near.agent.check_xfer_state(handle) == "DONE", "the transfer")
    assert undelivered(near) == []
    far.kill()
    wait_for_event(near, "lost")
    told = undelivered(near)
    assert told == [*lost, b"of a transfer"], "each once, in order, and none that was taken in"
    assert near.kinds("far")[-1] == "lost", "before their peer is"
    assert "it had not taken the message in" in near.events("far")[-2][1]
    with pytest.raises(nixlBind.nixlNotFoundError):
        near.agent.send_notif("far", b"x")
    time.sleep(0.1)
    assert undelivered(near) == told


def test_what_the_program_gives_up_is_told(near, far):
    """The peer is stopped and removed: what did not get into the socket is undelivered, the rest arrives."""
    far.stop()
    messages = [b"%03d" % i + bytes(1 << 20) for i in range(8)]
    for message in messages:
        near.agent.send_notif("far", message)
    near.agent.remove_remote_agent("far")
    told = undelivered(near)
    assert 0 < len(told) <= len(messages) and told == messages[len(messages) - len(told) :]
    far.go_on()
    arrived = messages[: len(messages) - len(told)]
    got = []
    if arrived:
        wait_until(lambda: got.extend(far.ask("notifs").get("near", [])) or len(got) >= len(arrived), "the rest")
    assert got == arrived


def test_a_target_hears_of_failed_transfers(near, far):
    handle = near.write(far)
    far.ask("deregister", 0, 16)
    with pytest.raises(nixlBind.nixlNotFoundError):
        near.agent.transfer(handle, b"never")
        wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the end")
    ((peer, message, why),) = wait_until(lambda: far.ask("failed"), "the word of a failed transfer")
    assert (peer, message) == ("near", b"never") and "not registered any more" in why
    assert far.ask("notifs") == {}

"""Notifications and signs of life between processes over the network engine, while peers stop, go on and die."""

import time

import pytest
from agents import WAIT_SECONDS, wait_until
from lanes import LANES
from nixl import _bindings as nixlBind
from peer_life import Far, Near, descriptors
from test_peers import TOLD_WITHIN_S

# A peer is stalled when it has not answered for two seconds; a test on a busy machine waits ten times as long.
STALLED_WITHIN_S = 20


@pytest.fixture(autouse=True)
def tcp(monkeypatch):
    for name, value in LANES["UCX"].items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def far():
    started = Far("far", "UCX")
    started.register()
    yield started
    started.kill()


@pytest.fixture
def near(far):
    one = Near("UCX")
    one.learn(far)
    one.run(one.write(far))
    return one


def numbered(first, end):
    return [b"%d" % number for number in range(first, end)]


def arrived(far, count, known=()):
    """What the other agent has got, once there are so many."""
    messages = list(known)

    def enough():
        messages.extend(far.ask("notifs").get("near", []))
        return len(messages) >= count

    wait_until(enough, f"{count} messages")
    time.sleep(0.2)
    return messages + far.ask("notifs").get("near", [])


def wait_for(near, kind, seconds=STALLED_WITHIN_S):
    began = time.monotonic()
    wait_until(lambda: kind in near.kinds("far"), f"the event {kind}")
    assert time.monotonic() - began < seconds


def test_a_stopped_peer_is_stalled_and_goes_on_as_if_nothing_had_been(near, far):
    handle = near.write(far)
    far.stop()
    wait_for(near, "stalled")
    assert near.agent.transfer(handle) == "PROC"
    for message in numbered(0, 200):
        near.agent.send_notif("far", message)
    time.sleep(3)  # longer than any time after which something could be given up
    assert near.agent.check_xfer_state(handle) == "PROC"
    far.go_on()
    wait_for(near, "resumed")
    wait_until(lambda: near.agent.check_xfer_state(handle) == "DONE", "the end of the transfer")
    assert arrived(far, 200) == numbered(0, 200)
    assert near.wrote(far)
    assert near.kinds("far") == ["joined", "stalled", "resumed"]


def test_a_connection_that_is_cut_off_loses_and_repeats_no_message(near, far):
    handle = near.write(far)
    sent = 0
    for _ in range(3):
        far.stop()
        for message in numbered(sent, sent + 50):
            near.agent.send_notif("far", message)
        assert near.agent.transfer(handle, timeout=0.1) == "PROC"
        with pytest.raises(nixlBind.nixlCancelledError):
            wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the deadline")
        for message in numbered(sent + 50, sent + 100):
            near.agent.send_notif("far", message)
        sent += 100
        far.go_on()
        near.run(handle)
    assert arrived(far, sent) == numbered(0, sent)
    assert "lost" not in near.kinds("far")


def test_the_other_side_of_a_connection_that_was_cut_off_goes_on(near, far):
    sink = near.agent.register_memory([near.memory.region], "DRAM")
    assert sink is not None
    far.ask("learn", near.agent.get_agent_metadata())
    assert far.ask("write", "near", near.memory.region[0]) == "DONE"
    handle = near.write(far)
    far.stop()
    assert near.agent.transfer(handle, timeout=0.1) == "PROC"
    with pytest.raises(nixlBind.nixlCancelledError):
        wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the deadline")
    far.go_on()
    # Its half of the connection is of no use; it finds out, and what it does next works.
    far.tell("write", "near", near.memory.region[0])
    limit = time.monotonic() + WAIT_SECONDS
    while not far.pipe.poll(0.01):
        near.agent.get_new_notifs()
        assert time.monotonic() < limit, "it waits for ever"
    assert far.answer() == "DONE"
    assert near.memory.data.tobytes() == far.ask("content")


def test_what_a_peer_that_died_has_not_taken_in_is_told(near, far):
    near.agent.send_notif("far", b"arrives")
    assert arrived(far, 1) == [b"arrives"]
    time.sleep(1)  # its answer comes
    far.stop()
    for message in numbered(0, 100):
        near.agent.send_notif("far", message)
    far.kill()
    wait_for(near, "lost", TOLD_WITHIN_S)
    wait_until(lambda: near.kinds("far").count("undelivered") >= 100, "the words about the messages")
    lost = [event for event in near.seen if event.kind == "undelivered"]
    assert [event.message for event in lost] == numbered(0, 100)
    assert all("not" in event.why for event in lost), "known to be lost, or not known"


def test_a_full_peer_makes_its_senders_wait(monkeypatch):
    monkeypatch.setenv("NIXL_NOTIF_QUEUE_BYTES", "20000")
    monkeypatch.setenv("NIXL_NOTIF_TIMEOUT_MS", "200")
    far = Far("far", "UCX")
    try:
        far.register()
        near = Near("UCX")
        near.learn(far)
        near.run(near.write(far))
        sent = 0
        with pytest.raises(nixlBind.nixlNotAllowedError, match="far"):
            for sent in range(100_000):
                near.agent.send_notif("far", b"%d" % sent)
        handle = near.agent.initialize_xfer(
            "WRITE",
            near.agent.get_xfer_descs(near.memory.descs(), "DRAM"),
            near.agent.get_xfer_descs(far.blocks(), "DRAM"),
            "far",
            b"%d" % sent,
        )
        assert near.agent.transfer(handle) == "PROC"
        time.sleep(0.5)
        assert near.agent.check_xfer_state(handle) == "PROC", "its message has to wait"
        assert near.wrote(far), "its data is there"
        messages = arrived(far, sent + 1)
        assert messages == numbered(0, sent + 1), "none is lost, none comes twice"
        wait_until(lambda: near.agent.check_xfer_state(handle) == "DONE", "the end of the transfer")
    finally:
        far.kill()


def test_two_agents_that_wait_for_each_other_go_on(monkeypatch):
    monkeypatch.setenv("NIXL_NOTIF_QUEUE_BYTES", "2000")
    monkeypatch.setenv("NIXL_NOTIF_TIMEOUT_MS", "100")
    far = Far("far", "UCX")
    try:
        near = Near("UCX")
        near.learn(far)
        far.ask("learn", near.agent.get_agent_metadata())

        def flood(send):
            with pytest.raises(Exception, match=r"takes no notifications|NOT_ALLOWED"):
                for number in range(10_000):
                    send(number)

        flood(lambda number: near.agent.send_notif("far", b"%d" % number))
        for number in range(20):
            far.ask("notify", "near", b"%d" % number)
        began = time.monotonic()
        assert far.ask("notifs")["near"]
        assert near.agent.get_new_notifs()["far"]
        assert time.monotonic() - began < 10
    finally:
        far.kill()


def test_the_target_learns_that_a_transfer_failed(near, far):
    handle = near.agent.initialize_xfer(
        "WRITE",
        near.agent.get_xfer_descs(near.memory.descs(), "DRAM"),
        near.agent.get_xfer_descs(far.blocks(), "DRAM"),
        "far",
        b"blocks are there",
    )
    near.run(handle)
    assert arrived(far, 1) == [b"blocks are there"]
    far.ask("deregister", 0, 16)
    near.agent.transfer(handle)
    with pytest.raises(nixlBind.nixlNotFoundError):
        wait_until(lambda: near.agent.check_xfer_state(handle) != "PROC", "the failure")
    told = []
    wait_until(lambda: told.extend(far.ask("failed")) or told, "the word of the failure")
    ((peer, message, why),) = told
    assert (peer, message) == ("near", b"blocks are there")
    assert "not registered" in why
    assert far.ask("notifs") == {}, "the message itself does not come"


def test_stalls_leave_no_descriptors(near, far):
    """Beside the connection: one that is kept, one that is tried, and what UCX still closes of either."""
    before = descriptors()
    for _ in range(10):
        far.stop()
        near.seen.clear()
        wait_for(near, "stalled")
        time.sleep(1)
        far.go_on()
        wait_for(near, "resumed")
        time.sleep(0.5)
    wait_until(lambda: descriptors() <= before + 4, "descriptors to be closed")

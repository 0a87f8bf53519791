"""Threads that wait sleep, and wake when something happens: over LOCAL and UCX, with and without a progress thread."""

import contextlib
import os
import select
import signal
import threading
import time

import pytest
from lanes import MODES, child_over, slow_child
from nixl import _bindings as nixlBind

BLOCK = 16384
COUNT = 64


@pytest.fixture(params=MODES)
def child(request, monkeypatch):
    child = child_over(monkeypatch, request.param, BLOCK, COUNT)
    yield child
    child.end()


@pytest.fixture
def slow(monkeypatch):
    child = slow_child(monkeypatch, BLOCK, COUNT)
    yield child
    child.end()


@contextlib.contextmanager
def idle(share=0.2):
    """The thread uses at most this share of the time for itself."""
    begin, used = time.monotonic(), time.thread_time()
    yield
    elapsed = time.monotonic() - begin
    used = time.thread_time() - used
    assert used < share * elapsed, f"{used:.3f} s of {elapsed:.3f} s on a processor"


def test_a_transfer_is_waited_for(child):
    handle = child.request(message=b"done")
    for round in range(20):
        child.memory.data[:] = round
        child.agent.transfer(handle)
        assert child.agent.wait(handle) == "DONE"
        assert child.ask("notifications", 1) == [b"done"]
        assert child.ask("content") == child.memory.data.tobytes()
    assert child.agent.wait(handle, 0) == "DONE"


def test_a_message_is_waited_for_without_using_a_processor(child):
    child.pipe.send(("notify_later", 0.5, [b"first", b"second"]))
    with idle():
        messages = child.agent.wait_notif()["child"]
    while len(messages) < 2:
        messages += child.agent.wait_notif(60)["child"]
    assert messages == [b"first", b"second"]
    child.receive()


def test_messages_go_to_and_fro_between_waiting_processes(child):
    count = 300
    child.pipe.send(("answer", count))
    for number in range(count):
        child.agent.send_notif(child.name, b"%d" % number)
        assert child.agent.wait_notif(60) == {"child": [b"%d" % number]}
    child.receive()


def test_nothing_comes_before_the_timeout(child):
    with idle():
        begin = time.monotonic()
        assert child.agent.wait_notif(0.4) == {}
        elapsed = time.monotonic() - begin
    assert 0.4 <= elapsed < 4
    assert child.agent.wait_notif(0) == {}


def test_many_threads_wait_shortly_and_miss_nothing(child):
    errors = []

    def work(block):
        try:
            handle = child.request(blocks=[block])
            for _ in range(150):
                child.agent.transfer(handle)
                assert child.agent.wait(handle, 60) == "DONE"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(block,)) for block in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    content = child.ask("content")
    assert content[: 4 * BLOCK] == child.memory.data[: 4 * BLOCK].tobytes()


def test_the_descriptor_is_readable_after_an_event(child):
    agent = child.agent
    agent.fileno()
    child.pipe.send(("notify_later", 0.1, [b"x"]))
    with idle():
        assert select.select([agent], [], [], 60)[0] == [agent]
    agent.clear_activity()
    messages = agent.get_new_notifs()
    while not messages:  # it was something else that happened
        select.select([agent], [], [], 60)
        agent.clear_activity()
        messages = agent.get_new_notifs()
    assert messages == {"child": [b"x"]}
    child.receive()


def test_waits_end_at_their_timeout_while_a_transfer_lasts(slow):
    agent, handle = slow.agent, slow.request()
    slow.stop()
    assert agent.transfer(handle) == "PROC"
    waits = [
        (lambda: agent.wait(handle, 0.2), "PROC"),
        (lambda: agent.wait_any([handle], 0.2), None),
        (lambda: agent.wait_all([handle], 0.2), False),
        (lambda: agent.wait_notif(0.2), {}),
    ]
    for wait, answer in waits:
        with idle():
            begin = time.monotonic()
            assert wait() == answer
            assert 0.2 <= time.monotonic() - begin < 2
    slow.go_on()
    assert agent.wait(handle, 60) == "DONE"
    assert slow.ask("content") == slow.memory.data.tobytes()


def test_the_first_of_several_and_all(slow):
    agent = slow.agent
    handles = [slow.request(blocks=[block]) for block in range(3)]
    slow.stop()
    for handle in handles:
        assert agent.transfer(handle) == "PROC"
    agent.cancel(handles[1])
    assert agent.wait_any(handles, 60) is handles[1]
    slow.go_on()
    with pytest.raises(nixlBind.nixlCancelledError):
        agent.wait_all(handles, 60)
    assert [agent.check_xfer_state(handles[i]) for i in (0, 2)] == ["DONE", "DONE"]
    assert agent.wait_all([handles[0], handles[2]]) is True
    assert agent.wait_all([]) is True
    with pytest.raises(nixlBind.nixlInvalidParamError):
        agent.wait_any([])


def test_cancelling_leaves_memory_quiet(slow):
    agent, handle = slow.agent, slow.request("READ")
    slow.stop()
    assert agent.transfer(handle) == "PROC"
    agent.cancel(handle)
    with pytest.raises(nixlBind.nixlCancelledError):
        agent.wait(handle, 60)
    assert agent.cancel(handle)
    slow.memory.data[:] = 7
    slow.go_on()
    slow.ask("notify", b"whatever was on its way has come")
    assert agent.wait_notif(60)
    assert (slow.memory.data == 7).all()


def test_what_is_not_in_progress_is_raised_as_by_check_xfer_state(pair):
    local, remote = pair.prepared()
    handle = pair.a.make_prepped_xfer("WRITE", local, [0], remote, [0])
    with pytest.raises(nixlBind.nixlNotPostedError):
        pair.a.wait(handle)
    assert pair.a.wait_any([handle]) is handle
    handle.release()
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.wait(handle)
    with pytest.raises(ValueError):
        pair.a.wait_notif(float("nan"))
    assert pair.a.wait_notif(-1) == {}


def test_a_signal_interrupts_a_wait(pair):
    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupt):
            pair.a.wait_notif()
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_handle_that_is_released_ends_the_wait(slow):
    agent, handle = slow.agent, slow.request()
    slow.stop()
    agent.transfer(handle)
    errors = []

    def wait():
        try:
            agent.wait(handle, 60)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)  # for it to sleep; no harm if it does not yet
    agent.release_xfer_handle(handle)
    thread.join()
    # Depending on which it sees first: that the transfer has ended, or that the handle has.
    assert [type(error) for error in errors] in ([nixlBind.nixlInvalidParamError], [nixlBind.nixlCancelledError])


def test_descriptors_end_with_the_agent(pair):
    before = len(os.listdir("/proc/self/fd"))
    watch = pair.a.agent.watch()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert pair.a.fileno() == pair.a.fileno() != watch.fileno()
    del watch, pair.a
    assert len(os.listdir("/proc/self/fd")) <= before

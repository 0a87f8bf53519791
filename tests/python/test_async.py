"""Transfers and messages in event loops, of asyncio and uvloop, over LOCAL and UCX."""

import asyncio
import collections
import contextlib
import functools
import os
import threading

import pytest
from lanes import MODES, child_over, slow_child
from nixl import _bindings as nixlBind

BLOCK = 65536
COUNT = 64  # 4 MiB: more than LOCAL moves within the post


def _uvloop():
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, _uvloop], ids=["asyncio", "uvloop"])
def run(request):
    """Runs a coroutine in a loop of its own, as asyncio.run does; from any thread."""

    def run(coroutine):
        loop = request.param()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, 120))
        finally:
            loop.close()

    return run


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


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


def test_a_transfer_is_awaited(child, run):
    handle = child.request()

    async def program():
        for round in range(10):
            child.memory.data[:] = round
            assert await child.agent.async_transfer(handle, b"done") == "DONE"
            assert child.ask("notifications", 1) == [b"done"]
            assert child.ask("content") == child.memory.data.tobytes()

    run(program())
    assert child.agent._loops == {}


def test_a_thousand_awaits_leave_nothing_behind(child, run):
    handle = child.request(blocks=range(17))  # just too much for LOCAL to move it within the post

    async def program():
        await child.agent.async_transfer(handle)
        before = descriptors()
        for _ in range(1000):
            assert await child.agent.async_transfer(handle) == "DONE"
        assert descriptors() == before

    run(program())
    assert child.agent._loops == {}


def test_many_transfers_of_several_loops_in_threads(child, run):
    errors = []

    async def program(first):
        handles = [child.request(blocks=range(first + i, COUNT, 16)) for i in range(4)]
        for _ in range(15):
            assert await asyncio.gather(*map(child.agent.async_transfer, handles)) == ["DONE"] * 4

    def work(first):
        try:
            run(program(first))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(4 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert child.ask("content") == child.memory.data.tobytes()
    assert child.agent._loops == {}


def test_the_loop_goes_on_while_a_transfer_lasts(slow, run):
    handle = slow.request()

    async def program():
        slow.stop()
        task = asyncio.create_task(slow.agent.async_transfer(handle))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not task.done()
        slow.go_on()
        assert await task == "DONE"

    run(program())
    assert slow.ask("content") == slow.memory.data.tobytes()


def test_cancelling_a_task_leaves_memory_quiet(slow, run):
    handle = slow.request("READ")

    async def program():
        slow.stop()
        task = asyncio.create_task(slow.agent.async_transfer(handle))
        await asyncio.sleep(0.01)
        assert slow.agent.check_xfer_state(handle) == "PROC"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.agent.cancel(handle), "memory is not quiet when the task has ended"
        with pytest.raises(nixlBind.nixlCancelledError):
            slow.agent.check_xfer_state(handle)
        slow.memory.data[:] = 7
        slow.go_on()

    run(program())
    slow.ask("notify", b"whatever was on its way has come")
    assert slow.agent.wait_notif(60)
    assert (slow.memory.data == 7).all()
    assert slow.agent._loops == {}


def test_a_task_that_is_cancelled_again_still_waits_for_quiet(slow, run, monkeypatch):
    """Memory is not quiet for a while."""
    handle = slow.request("READ")
    busy = [True]
    cancel = slow.agent.cancel

    async def program():
        slow.stop()
        task = asyncio.create_task(slow.agent.async_transfer(handle))
        await asyncio.sleep(0.01)
        # As an engine that needs its time: the transfer goes on.
        monkeypatch.setattr(slow.agent, "cancel", lambda handle: False if busy[0] else cancel(handle))
        for _ in range(5):
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
        busy[0] = False
        slow.go_on()  # now it ends
        with pytest.raises(asyncio.CancelledError):
            await task

    run(program())


def test_a_timeout_cancels(slow, run):
    handle = slow.request()

    async def program():
        slow.stop()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow.agent.async_transfer(handle), 0.05)
        assert slow.agent.cancel(handle)
        slow.go_on()
        assert await slow.agent.async_transfer(handle) == "DONE"

    run(program())


def test_failures_are_raised(child, run):
    async def program():
        handle = child.request()
        child.agent.remove_remote_agent(child.name)
        with pytest.raises(nixlBind.nixlNotFoundError):
            await child.agent.async_transfer(handle)
        handle.release()
        with pytest.raises(nixlBind.nixlInvalidParamError):
            await child.agent.async_transfer(handle)

    run(program())
    assert child.agent._loops == {}


def test_a_handle_that_is_released_ends_the_await(slow, run):
    handle = slow.request()

    async def program():
        slow.stop()
        task = asyncio.create_task(slow.agent.async_transfer(handle))
        await asyncio.sleep(0.01)
        handle.release()
        with pytest.raises(nixlBind.nixlInvalidParamError):
            await task

    run(program())


def test_messages_are_iterated(child, run):
    messages = [b"%d" % number for number in range(50)]

    async def program():
        child.pipe.send(("notify_later", 0.05, messages))
        taken = []
        async for name, message in child.agent.notifications():
            assert name == "child"
            taken.append(message)
            if len(taken) == 20:
                break
        # What came together with the last one is not lost.
        async for _, message in child.agent.notifications():
            taken.append(message)
            if len(taken) == 50:
                break
        assert taken == messages
        assert not any(child.agent.notifs.values())

    run(program())
    child.receive()
    assert child.agent._loops == {}


def test_an_iterator_that_is_cancelled_leaves_messages_for_the_next(child, run):
    async def program():
        task = asyncio.create_task(anext(child.agent.notifications()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert child.agent._loops == {}
        child.pipe.send(("notify_later", 0.01, [b"x"]))
        assert await anext(child.agent.notifications()) == ("child", b"x")

    run(program())
    child.receive()


def test_loops_in_threads_share_the_messages(child, run):
    count = 60
    taken = collections.Counter()
    lock = threading.Lock()
    errors = []

    async def program():
        with contextlib.suppress(asyncio.TimeoutError):
            while True:
                _, message = await asyncio.wait_for(anext(child.agent.notifications()), 60)
                with lock:
                    taken[message] += 1
                if message == b"end":
                    return

    def work():
        try:
            run(program())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    child.ask("notify_later", 0.05, [b"%d" % number for number in range(count)])
    for _ in threads:
        child.ask("notify", b"end")
    for thread in threads:
        thread.join()
    assert not errors
    assert taken == collections.Counter({**{b"%d" % number: 1 for number in range(count)}, b"end": 3})


def test_transfers_and_messages_in_one_loop(child, run):
    handle = child.request()

    async def listen():
        taken = []
        async for _, message in child.agent.notifications():
            taken.append(message)
            if message == b"last":
                return taken

    async def program():
        listener = asyncio.create_task(listen())
        for number in range(5):
            await child.agent.async_transfer(handle)
            await asyncio.get_running_loop().run_in_executor(
                None, functools.partial(child.ask, "notify", b"%d" % number)
            )
        child.ask("notify", b"last")
        assert await listener == [b"0", b"1", b"2", b"3", b"4", b"last"]

    run(program())
    assert child.agent._loops == {}


def test_a_coroutine_that_is_thrown_away_cancels(slow):
    handle = slow.request()
    loop = asyncio.new_event_loop()
    slow.stop()
    coroutine = slow.agent.async_transfer(handle)

    async def begin():
        coroutine.send(None)
        coroutine.close()

    loop.run_until_complete(begin())
    loop.close()
    with pytest.raises(nixlBind.nixlCancelledError):
        slow.agent.wait(handle, 60)
    assert slow.agent._loops == {}

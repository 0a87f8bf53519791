"""Two processes: what is written, read and said arrives as it was sent."""

import numpy as np
import pytest
from agents import finish, wait_until
from child import Child

BLOCK = 1024
COUNT = 256


@pytest.fixture
def child():
    child = Child(BLOCK, COUNT)
    yield child
    child.end()


def blocks(data):
    return np.frombuffer(data, np.uint8).reshape(-1, BLOCK)


def test_write_scattered_blocks_with_a_notification(child):
    local, remote = child.prepared()
    there = np.random.default_rng(3).permutation(COUNT)[: COUNT // 2]
    here = np.arange(COUNT // 2)
    handle = child.agent.make_prepped_xfer("WRITE", local, here, remote, there, b"req:7")
    child.agent.transfer(handle)
    finish(child.agent, handle)
    assert child.ask("notifications", 1) == [b"req:7"]
    expected = blocks(child.initial).copy()
    expected[there] = blocks(child.memory.data)[here]
    assert child.ask("content") == expected.tobytes()
    assert child.agent.explain(handle).backend == "LOCAL"


def test_read_scattered_blocks(child):
    local, remote = child.prepared()
    there = np.random.default_rng(4).permutation(COUNT)[: COUNT // 2]
    before = child.memory.data.copy()
    handle = child.agent.make_prepped_xfer("READ", local, list(range(COUNT // 2)), remote, there.tolist())
    for _ in range(2):
        child.agent.transfer(handle)
        finish(child.agent, handle)
        assert (blocks(child.memory.data)[: COUNT // 2] == blocks(child.initial)[there]).all()
        assert (blocks(child.memory.data)[COUNT // 2 :] == blocks(before)[COUNT // 2 :]).all()
        child.memory.data[:] = before
    assert child.ask("content") == child.initial


def test_the_other_side_reads(child):
    descs = child.memory.descs()[5:8]
    content = child.ask("read_from_parent", descs)
    assert content[: 3 * BLOCK] == child.memory.data[5 * BLOCK : 8 * BLOCK].tobytes()
    assert wait_until(child.agent.get_new_notifs, "a notification") == {"child": [b"read"]}


def test_notifications_in_both_directions(child):
    messages = [b"", b"text", bytes(range(256)) * 300]
    for message in messages:
        child.agent.send_notif(child.name, message)
    assert child.ask("notifications", len(messages)) == messages
    child.ask("notify", b"back")
    assert wait_until(child.agent.get_new_notifs, "a notification") == {"child": [b"back"]}

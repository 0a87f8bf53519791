"""Metadata of one implementation in the hands of the other: whole, in parts, again, and forgotten."""

import pytest

from .conftest import AgentError

BLOCK = 4096


def write(initiator, target, local, remote, block=0):
    """Writes one block and checks all bytes of the target."""
    initiator.call(
        "transfer",
        operation="WRITE",
        peer=target.name,
        local=local.blocks([block], BLOCK),
        remote=remote.blocks([block], BLOCK),
    )
    at = slice(block * BLOCK, (block + 1) * BLOCK)
    remote.expected[at] = local.expected[at]
    remote.check(BLOCK)


@pytest.fixture
def local(pair):
    return pair[0].region("local", 4 * BLOCK, 41)


def knows(agent, other, *regions):
    """Whether it knows these regions, whole."""
    return [
        agent.call("knows", peer=other.name, descs=[(region.address, region.expected.nbytes, 0)]) for region in regions
    ]


def test_more_memory_after_the_first_exchange(pair, local):
    initiator, target = pair
    first = target.region("first", 4 * BLOCK, 42)
    initiator.learn(target)
    write(initiator, target, local, first)
    second = target.region("second", 4 * BLOCK, 43)
    assert knows(initiator, target, first, second) == [True, False]
    initiator.learn(target)
    assert knows(initiator, target, first, second) == [True, True]
    write(initiator, target, local, second, 1)
    write(initiator, target, local, first, 2)


def test_the_same_metadata_again(pair, local):
    initiator, target = pair
    region = target.region("region", 4 * BLOCK, 44)
    blob = target.call("metadata")
    for block in range(3):
        initiator.learn(target, blob)
        write(initiator, target, local, region, block)


def test_a_part_with_connection_then_another_without(pair, local):
    initiator, target = pair
    first, second, third = (target.region(str(i), 4 * BLOCK, 45 + i) for i in range(3))
    initiator.learn(target, target.call("partial_metadata", regions=["0"], connection=True))
    assert knows(initiator, target, first, second, third) == [True, False, False]
    write(initiator, target, local, first)
    initiator.learn(target, target.call("partial_metadata", regions=["2", "1"], connection=False))
    assert knows(initiator, target, first, second, third) == [True, True, True]
    write(initiator, target, local, second, 1)
    write(initiator, target, local, third, 2)


def test_only_the_connection_first(pair, local):
    initiator, target = pair
    region = target.region("region", 4 * BLOCK, 48)
    initiator.learn(target, target.call("partial_metadata", regions=[], connection=False))
    assert initiator.call("knows", peer=target.name) is True
    assert knows(initiator, target, region) == [False]
    initiator.call("connect", peer=target.name)
    initiator.call("notify", peer=target.name, message=b"connected")
    assert target.call("messages", count=1) == {initiator.name: [b"connected"]}
    initiator.learn(target, target.call("partial_metadata", regions=["region"], connection=False))
    write(initiator, target, local, region)


def test_no_memory_at_all(pair):
    initiator, target = pair
    initiator.learn(target)
    initiator.call("notify", peer=target.name, message=b"hello")
    assert target.call("messages", count=1) == {initiator.name: [b"hello"]}


def test_forgotten_and_learned_again(pair, local):
    initiator, target = pair
    region = target.region("region", 4 * BLOCK, 49)
    for block in range(3):
        initiator.learn(target)
        write(initiator, target, local, region, block)
        initiator.call("remove", peer=target.name)
        assert initiator.call("knows", peer=target.name) is False
        with pytest.raises(AgentError, match="NIXL_ERR_NOT_FOUND"):
            write(initiator, target, local, region, block)


def test_forgotten_by_one_side_only(pair, local):
    initiator, target = pair
    region = target.region("region", 4 * BLOCK, 50)
    for agent, other in (pair, pair[::-1]):
        agent.learn(other)
    write(initiator, target, local, region)
    target.call("remove", peer=initiator.name)
    write(initiator, target, local, region, 1)
    initiator.call("notify", peer=target.name, message=b"still here")
    assert target.call("messages", count=1) == {initiator.name: [b"still here"]}


def test_memory_that_was_withdrawn_is_not_in_new_metadata(pair, local):
    initiator, target = pair
    first, second = (target.region(name, 4 * BLOCK, 51) for name in ("first", "second"))
    target.call("deregister", region="first")
    initiator.learn(target)
    assert knows(initiator, target, first, second) == [False, True]
    write(initiator, target, local, second)


def test_c19_registrations_inside_of_others(make_agent):
    # NIXL as the initiator does not find the large one; ours does.
    initiator, target = make_agent("ours", "initiator"), make_agent("wheel", "target")
    local, region = initiator.region("local", 4 * BLOCK, 52), target.region("region", 4 * BLOCK, 53)
    target.call("register_part", region="region", offset=0, size=BLOCK)
    target.call("register_part", region="region", offset=BLOCK, size=BLOCK)
    initiator.learn(target)
    for block in (0, 1, 3):
        write(initiator, target, local, region, block)
    initiator.call(
        "transfer",
        operation="WRITE",
        peer=target.name,
        local=[(local.address, 4 * BLOCK, 0)],
        remote=[(region.address, 4 * BLOCK, 0)],
    )
    region.expected[:] = local.expected
    region.check(BLOCK)


def test_many_registrations(pair, local):
    initiator, target = pair
    region = target.region("region", 512 * BLOCK, 54)
    target.call("deregister", region="region")
    for block in range(512):
        target.call("register_part", region="region", offset=block * BLOCK, size=BLOCK)
    initiator.learn(target)
    order = [(37 * block) % 512 for block in range(512)]
    local = initiator.region("many", 512 * BLOCK, 55)
    initiator.call(
        "transfer",
        operation="WRITE",
        peer=target.name,
        local=local.blocks(range(512), BLOCK),
        remote=region.blocks(order, BLOCK),
    )
    region.expected.reshape(-1, BLOCK)[order] = local.expected.reshape(-1, BLOCK)
    region.check(BLOCK)

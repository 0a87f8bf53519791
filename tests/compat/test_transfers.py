"""Our agent and one of NIXL 1.5.1 write into and read from each other's memory."""

import os

import numpy as np
import pytest

from .conftest import AgentError

KIB = 1 << 10
MIB = 1 << 20
FULL = "TEST_FULL" in os.environ


def apply(operation, local, local_blocks, remote, remote_blocks, size):
    """What a transfer of these blocks does to what the regions should hold."""
    here = local.expected.reshape(-1, size)
    there = remote.expected.reshape(-1, size)
    if operation == "WRITE":
        there[remote_blocks] = here[local_blocks]
    else:
        here[local_blocks] = there[remote_blocks]


def shuffled(count, seed):
    return np.random.default_rng(seed).permutation(count)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_scattered_blocks_of_prepared_lists(pair, operation):
    initiator, target = pair
    block, count = 4 * KIB, 96
    local, remote = initiator.region("local", block * count, 1), target.region("remote", block * count, 2)
    initiator.learn(target)
    here, there = shuffled(count, 3)[: count // 2], shuffled(count, 4)[: count // 2]
    done = initiator.call(
        "transfer_prepared",
        operation=operation,
        peer=target.name,
        local=local.blocks(range(count), block),
        local_indices=here.tolist(),
        remote=remote.blocks(range(count), block),
        remote_indices=there.tolist(),
        message=b"first\0second",
    )
    assert done == {"bytes": block * count // 2, "backend": "UCX"}
    # The target never heard of the initiator.
    assert target.call("messages", count=1) == {initiator.name: [b"first\0second"]}
    apply(operation, local, here, remote, there, block)
    local.check(block)
    remote.check(block)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_a_list_of_16_mib_blocks(pair, operation):
    initiator, target = pair
    block, count = 16 * MIB, 8 if FULL else 2
    local, remote = initiator.region("local", block * count, 5), target.region("remote", block * count, 6)
    initiator.learn(target)
    there = np.arange(count)[::-1]
    initiator.call(
        "transfer",
        operation=operation,
        peer=target.name,
        local=local.blocks(range(count), block),
        remote=remote.blocks(there, block),
        message=b"large",
    )
    assert target.call("messages", count=1) == {initiator.name: [b"large"]}
    apply(operation, local, np.arange(count), remote, there, block)
    local.check(MIB)
    remote.check(MIB)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_a_list_of_20000_blocks(pair, operation):
    initiator, target = pair
    block, count, holes = 512, 20_000, 100
    size = block * (count + holes)
    local, remote = initiator.region("local", size, 7), target.region("remote", size, 8)
    initiator.learn(target)
    here, there = shuffled(count + holes, 9)[:count], shuffled(count + holes, 10)[:count]
    initiator.call(
        "transfer",
        operation=operation,
        peer=target.name,
        local=local.blocks(here, block),
        remote=remote.blocks(there, block),
        message=b"many",
    )
    assert target.call("messages", count=1) == {initiator.name: [b"many"]}
    apply(operation, local, here, remote, there, block)
    local.check(block)
    remote.check(block)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
def test_odd_sizes_at_odd_addresses(pair, operation):
    initiator, target = pair
    sizes = [1, 3, 63, 64, 65, 4095, 4097, 65_537, 300_001]
    total = sum(sizes) + 7 * len(sizes)
    local, remote = initiator.region("local", total, 11), target.region("remote", total, 12)
    initiator.learn(target)
    at = [sum(sizes[:i]) + 7 * i for i in range(len(sizes))]
    here = [(local.address + offset, size, 0) for offset, size in zip(at, sizes)]
    there = [(remote.address + offset + 5, size, 0) for offset, size in zip(at, sizes)]
    initiator.call("transfer", operation=operation, peer=target.name, local=here, remote=there)
    for offset, size in zip(at, sizes):
        mine, theirs = slice(offset, offset + size), slice(offset + 5, offset + 5 + size)
        if operation == "WRITE":
            remote.expected[theirs] = local.expected[mine]
        else:
            local.expected[mine] = remote.expected[theirs]
    local.check(1000)
    remote.check(1000)


def test_a_request_posted_again_and_again(pair):
    initiator, target = pair
    block = 64 * KIB
    local, remote = initiator.region("local", block, 13), target.region("remote", block, 14)
    initiator.learn(target)
    whole = {"local": local.blocks([0], block), "remote": remote.blocks([0], block)}
    initiator.call("transfer", operation="WRITE", peer=target.name, message=b"again", times=10, **whole)
    assert target.call("messages", count=10) == {initiator.name: [b"again"] * 10}
    apply("WRITE", local, [0], remote, [0], block)
    remote.check(block)


def test_both_transfer_at_the_same_time(pair):
    block, count = 64 * KIB, 64
    sides = [
        {"local": agent.region("local", block * count, 15 + i), "remote": agent.region("remote", block * count, 17 + i)}
        for i, agent in enumerate(pair)
    ]
    for agent, other in (pair, pair[::-1]):
        agent.learn(other)
    orders = [shuffled(count, 19 + i) for i in range(2)]
    for i, agent in enumerate(pair):
        agent.process.start(
            "transfer",
            agent=agent.name,
            operation="WRITE",
            peer=pair[1 - i].name,
            local=sides[i]["local"].blocks(range(count), block),
            remote=sides[1 - i]["remote"].blocks(orders[i], block),
            times=4,
        )
    for i, agent in enumerate(pair):
        agent.process.result("transfer")
        apply("WRITE", sides[i]["local"], np.arange(count), sides[1 - i]["remote"], orders[i], block)
    for side in sides:
        side["local"].check(block)
        side["remote"].check(block)


@pytest.mark.parametrize("operation", ["WRITE", "READ"])
@pytest.mark.parametrize(
    "block, count, settings",
    [
        # As rank-based clients configure it: each side makes progress inside of its own calls.
        pytest.param(16 * KIB, 64, {"progress_thread": False}, id="no progress threads"),
        pytest.param(1 * KIB, 8192, {"num_threads": 4}, id="thread pools"),
    ],
)
def test_threads_of_both_sides(make_agent, kinds, operation, block, count, settings):
    initiator, target = (make_agent(kind, side, **settings) for kind, side in zip(kinds, ("initiator", "target")))
    local, remote = initiator.region("local", block * count, 24), target.region("remote", block * count, 25)
    initiator.learn(target)
    there = shuffled(count, 26)
    initiator.call(
        "transfer",
        operation=operation,
        peer=target.name,
        local=local.blocks(range(count), block),
        remote=remote.blocks(there, block),
        message=b"moved",
    )
    assert target.call("messages", count=1) == {initiator.name: [b"moved"]}
    apply(operation, local, np.arange(count), remote, there, block)
    local.check(block)
    remote.check(block)


def test_memory_that_is_not_registered_is_not_found(pair):
    initiator, target = pair
    local, remote = initiator.region("local", 8 * KIB, 27), target.region("remote", 4 * KIB, 28)
    initiator.learn(target)
    with pytest.raises(AgentError, match="NIXL_ERR_NOT_FOUND"):
        initiator.call(
            "transfer",
            operation="WRITE",
            peer=target.name,
            local=local.blocks([0], 8 * KIB),
            remote=remote.blocks([0], 8 * KIB),
        )
    remote.check(KIB)

"""Serialized lists of one implementation are read by the other (C22)."""

import pickle

import numpy as np
import pytest
from nixl import _bindings as nixlBind

BLOCKS = [(4096 * i, 512 + i, i % 8) for i in range(1000)]
LISTS = {
    "xfer": ("nixlXferDList", "DRAM_SEG", BLOCKS),
    "one": ("nixlXferDList", "VRAM_SEG", [(2**64 - 4096, 4096, 7)]),
    "files": ("nixlXferDList", "FILE_SEG", [(0, 0, 3), (2**40, 1, 3)]),
    "reg": ("nixlRegDList", "DRAM_SEG", [(*block, "") for block in BLOCKS]),
    "meta": ("nixlRegDList", "OBJ_SEG", [(0, 1, 7, "key/of an object"), (5, 2, 8, "")]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_one_are_read_by_the_other(pair, name):
    writer, reader = pair
    kind, memory, descs = LISTS[name]
    text = writer.call("serialize", kind=kind, memory=memory, descs=descs)
    found_kind, found_memory, found = reader.call("deserialize", text=text)
    assert (found_kind, found_memory) == (kind, memory)
    wanted = [[*desc[:3], desc[3].encode()] if len(desc) == 4 else list(desc) for desc in descs]
    assert found == wanted


def test_a_list_sent_by_a_notification_and_written_to(pair):
    # As programs use it: the target says where its blocks are, the initiator writes there.
    initiator, target = pair
    block, count = 4096, 32
    local, remote = initiator.region("local", block * count, 61), target.region("remote", block * count, 62)
    for agent, other in (pair, pair[::-1]):
        agent.learn(other)
    text = target.call(
        "serialize", kind="nixlXferDList", memory="DRAM_SEG", descs=remote.blocks(range(count)[::-1], block)
    )
    target.call("notify", peer=initiator.name, message=text)
    ((received,),) = initiator.call("messages", count=1).values()
    descs = initiator.call("deserialize", text=received)[2]
    initiator.call(
        "transfer", operation="WRITE", peer=target.name, local=local.blocks(range(count), block), remote=descs
    )
    remote.expected.reshape(-1, block)[np.arange(count)[::-1]] = local.expected.reshape(-1, block)
    remote.check(block)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_our_classes_are_lists_for_the_wheel(process_of, protocol):
    # Whoever pickles a list by himself, rather than by get_serialized_descs.
    text = pickle.dumps(nixlBind.nixlXferDList(nixlBind.DRAM_SEG, BLOCKS), protocol)
    wheel = process_of("wheel", "target", {})
    wheel.call("create", agent="reader", progress_thread=False, num_threads=0, params={})
    assert wheel.call("deserialize", agent="reader", text=text) == [
        "nixlXferDList",
        "DRAM_SEG",
        [list(b) for b in BLOCKS],
    ]
    wheel.call("drop", agent="reader")

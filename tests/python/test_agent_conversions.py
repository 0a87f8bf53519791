"""get_*_descs and what the agent makes of tuples, arrays and tensors."""

import ctypes
import logging

import numpy as np
import pytest
from agents import Device, Memory, Tensor, finish, local_agent
from nixl import _bindings as nixlBind


@pytest.fixture(scope="module")
def agent():
    return local_agent("conversions")


MEMORY = Memory()
OTHER = Memory()


def test_memory_types_by_every_name(agent):
    expected = {
        "DRAM": nixlBind.DRAM_SEG,
        "VRAM": nixlBind.VRAM_SEG,
        "FILE": nixlBind.FILE_SEG,
        "BLOCK": nixlBind.BLK_SEG,
        "OBJ": nixlBind.OBJ_SEG,
        "cpu": nixlBind.DRAM_SEG,
        "cuda": nixlBind.VRAM_SEG,
    }
    assert agent.nixl_mems == expected
    for name, kind in expected.items():
        assert agent.get_xfer_descs([(1, 2, 3)], name).getType() == kind
        assert agent.get_reg_descs([(1, 2, 3, "")], mem_type=name).getType() == kind


def test_lists_are_passed_on(agent):
    xfer = nixlBind.nixlXferDList(nixlBind.DRAM_SEG, [(1, 2, 3)])
    reg = nixlBind.nixlRegDList(nixlBind.DRAM_SEG, [(1, 2, 3, "")])
    remote = nixlBind.nixlRemoteDList(nixlBind.DRAM_SEG, [(1, 2, 3, "a")])
    assert agent.get_xfer_descs(xfer) is xfer
    assert agent.get_reg_descs(reg) is reg
    assert agent.get_remote_descs(remote) is remote


def test_tuples_and_arrays(agent):
    assert list(agent.get_xfer_descs([(1 << 63, 2, 3)], "DRAM")) == [(1 << 63, 2, 3)]
    assert list(agent.get_xfer_descs(((1, 2, 3), (4, 5, 6)), "DRAM")) == [(1, 2, 3), (4, 5, 6)]
    assert list(agent.get_reg_descs([(1, 2, 3, "cuda")], "VRAM")) == [(1, 2, 3, b"cuda")]
    assert list(agent.get_remote_descs([(1, 2, 3, b"peer")], "DRAM")) == [(1, 2, 3, "peer")]
    rows = np.array([[1 << 63, 2, 3]], np.uint64)
    assert list(agent.get_xfer_descs(rows, "DRAM")) == [(1 << 63, 2, 3)]
    assert list(agent.get_reg_descs(rows, "DRAM")) == [(1 << 63, 2, 3, b"")]


def test_tensors_know_their_memory(agent):
    size = MEMORY.data.nbytes
    host = agent.get_xfer_descs(Tensor(MEMORY))
    assert (host.getType(), list(host)) == (nixlBind.DRAM_SEG, [(MEMORY.addr, size, 0)])
    device = agent.get_reg_descs(Tensor(MEMORY, Device("cuda", 3)))
    assert (device.getType(), list(device)) == (nixlBind.VRAM_SEG, [(MEMORY.addr, size, 3, b"")])
    assert len(agent.get_reg_descs([Tensor(MEMORY), Tensor(OTHER)])) == 2
    assert len(agent.get_xfer_descs((Tensor(MEMORY), Tensor(OTHER)))) == 2
    assert agent.get_xfer_descs(Tensor(MEMORY, Device("hpu", 1)), "VRAM").getType() == nixlBind.VRAM_SEG


WRONG = {
    "no mem_type": ([(1, 2, 3)], None, "mem_type"),
    "an array without mem_type": (np.zeros((1, 3), np.uint64), None, "mem_type"),
    "too few fields": ([(1, 2)], "DRAM", "3 elements, not 2"),
    "no tuples": ([[1, 2, 3]], "DRAM", "a list"),
    "integers": ([1, 2], "DRAM", "a int"),
    "a bare tuple": ((1, 2, 3), "DRAM", "a int"),
    "a str": ("abc", "DRAM", "a str"),
    "bytes": (b"abc", "DRAM", "a bytes"),
    "a list of another kind": (nixlBind.nixlRemoteDList(nixlBind.DRAM_SEG), "DRAM", "nixlRemoteDList"),
    "Nx4": (np.zeros((2, 4), np.uint64), "DRAM", r"Nx3.*\(2, 4\)"),
    "one dimension": (np.zeros(3, np.uint64), "DRAM", r"Nx3.*\(3,\)"),
    "arrays in a list": ([np.zeros(3)], "DRAM", "a ndarray"),
    "a tensor with gaps": (Tensor(MEMORY, contiguous=False), None, "not contiguous"),
    "a tensor with gaps in a list": ([Tensor(MEMORY), Tensor(MEMORY, contiguous=False)], None, r"descs\[1\].*contig"),
    "tensors of two devices": ([Tensor(MEMORY), Tensor(OTHER, Device("cuda", 0))], None, r"descs\[1\] is on cuda:0"),
    "a tuple among tensors": ([Tensor(MEMORY), (1, 2, 3)], None, r"descs\[1\] is a tuple"),
    "a device of another maker": (Tensor(MEMORY, Device("xpu", 0)), None, "xpu:0 need a mem_type"),
}


@pytest.mark.parametrize(("descs", "mem_type", "words"), WRONG.values(), ids=WRONG.keys())
def test_c20_wrong_input_gives_none_and_one_line_and_an_exception_where_it_is_used(
    agent, log_lines, descs, mem_type, words
):
    assert agent.get_xfer_descs(descs, mem_type) is None
    (line,) = log_lines(logging.ERROR)
    assert line.startswith("get_xfer_descs: ")
    with pytest.raises(TypeError, match=words):
        agent.prep_xfer_dlist("", descs, mem_type)


def test_c20_wrong_input_to_register_raises(agent):
    for wrong in (None, 5, "abc", [(1, 2)], [[1, 2, 3, ""]], np.zeros((2, 4), np.uint64)):
        with pytest.raises(TypeError):
            agent.register_memory(wrong, "DRAM")
    assert agent.get_reg_descs([(1, 2, 3)], "DRAM") is None
    assert agent.get_remote_descs(np.zeros((1, 4), np.uint64), "DRAM") is None


def test_c20_what_nixl_raises_is_raised(agent):
    for convert in (agent.get_xfer_descs, agent.get_reg_descs, agent.get_remote_descs):
        with pytest.raises(IndexError):
            convert([], "DRAM")
        with pytest.raises(TypeError):
            convert(None, "DRAM")
    with pytest.raises(KeyError, match="dram"):
        agent.get_xfer_descs([(1, 2, 3)], "dram")
    with pytest.raises(KeyError, match="X"):
        agent.get_reg_descs([(1, 2, 3, "")], "X")
    with pytest.raises(ValueError, match=r"descs\[1\].*exactly 3 elements"):
        agent.get_xfer_descs([(1, 2, 3), (1, 2)], "DRAM")
    with pytest.raises(ValueError, match="C-contiguous"):
        agent.get_xfer_descs(np.zeros((4, 6), np.uint64)[:, ::2], "DRAM")
    with pytest.raises(ValueError, match="uint64 or int64"):
        agent.get_xfer_descs(np.zeros((4, 3), np.int32), "DRAM")


def test_c20_a_list_that_is_claimed_sorted_is_verified(agent):
    in_order = [(100, 8, 0), (200, 8, 0), (50, 8, 1)]
    assert list(agent.get_xfer_descs(in_order, "DRAM", sorted=True)) == in_order
    for wrong in ([(200, 8, 0), (100, 8, 0)], np.array([(1, 1, 1), (1, 1, 0)], np.uint64)):
        with pytest.raises(ValueError, match=r"descs\[1\]"):
            agent.get_xfer_descs(wrong, "DRAM", sorted=True)
        assert len(agent.get_xfer_descs(wrong, "DRAM", sorted=False)) == 2
    with pytest.raises(ValueError, match=r"descs\[1\]"):
        agent.get_reg_descs([(2, 8, 0, ""), (1, 8, 0, "")], "DRAM", sorted=True)


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_c20_strided_rows_count_blocks_across_the_rows(pair, dtype):
    step = 2 * pair.target.block
    rows = np.array(
        [[pair.target.addr, 512, 0, step, 3], [pair.target.addr + 8 * 512, 512, 0, 512, 8]], np.uint64
    ).view(dtype)
    local = pair.a.prep_xfer_dlist("", pair.source.descs(), "DRAM")
    remote = pair.a.prep_xfer_dlist("beta", rows, "DRAM")
    handle = pair.a.make_prepped_xfer("WRITE", local, [5, 6, 7], remote, np.array([2, 3, 10]))
    pair.a.transfer(handle)
    finish(pair.a, handle)
    for source, target in ((5, 4), (6, 8), (7, 15)):
        assert pair.target.bytes_of(target) == pair.source.bytes_of(source)


def test_c20_wrong_strided_rows_are_refused(pair):
    row = [pair.target.addr, 512, 0, 1024, 3]
    with pytest.raises(ValueError, match="mem_type"):
        pair.a.prep_xfer_dlist("beta", np.array([row], np.uint64))
    with pytest.raises(KeyError):
        pair.a.prep_xfer_dlist("beta", np.array([row], np.uint64), "Q")
    with pytest.raises(ValueError, match="Nx5 numpy array of uint64 or int64"):
        pair.a.prep_xfer_dlist("beta", np.zeros((1, 5), np.int32), "DRAM")
    with pytest.raises(ValueError, match="C-contiguous"):
        pair.a.prep_xfer_dlist("beta", np.zeros((4, 10), np.uint64)[:, ::2], "DRAM")
    for wrong in (
        [row[0], 512, 0, 1024, 9],
        [row[0], 512, 0, 1024, 0],
        [row[0], 512, 0, 256, 2],
        [row[0], 0, 0, 512, 2],
        [row[0] + 1024, 512, 0, (1 << 64) - 64, 3],
        [row[0], 512, 0, 1 << 63, 3],
    ):
        with pytest.raises(nixlBind.nixlNotFoundError):
            pair.a.prep_xfer_dlist("beta", np.array([wrong], np.uint64), "DRAM")
    with pytest.raises(nixlBind.nixlNotFoundError):
        pair.a.prep_xfer_dlist("beta", np.zeros((0, 5), np.uint64), "DRAM")


def test_c20_any_object_with_a_buffer_is_an_array(pair):
    rows = ((ctypes.c_uint64 * 3) * 2)((1, 2, 3), (4, 5, 6))
    assert list(pair.a.get_xfer_descs(rows, "DRAM")) == [(1, 2, 3), (4, 5, 6)]
    assert [desc[:3] for desc in pair.a.get_reg_descs(rows, "DRAM")] == [(1, 2, 3), (4, 5, 6)]
    row = ((ctypes.c_uint64 * 5) * 1)((pair.source.addr, 512, 0, 512, 16))
    assert pair.a.prep_xfer_dlist("", row, "DRAM")


def test_c20_an_empty_array_of_rows_is_not_found(pair):
    with pytest.raises(nixlBind.nixlNotFoundError):
        pair.a.prep_xfer_dlist("", np.zeros((0, 5), np.uint64), "DRAM")

"""Lists of descriptors: construction from tuples and arrays, access, and what is refused."""

import pickle

import numpy as np
import pytest
from nixl import _bindings as nixlBind

DRAM = nixlBind.DRAM_SEG
XferList = nixlBind.nixlXferDList
RegList = nixlBind.nixlRegDList
RemoteList = nixlBind.nixlRemoteDList
TOP_BIT = 1 << 63


def test_tuples_come_back():
    assert list(XferList(DRAM, [(1, 2, 3), (TOP_BIT, 5, 6)])) == [(1, 2, 3), (TOP_BIT, 5, 6)]
    assert list(RegList(DRAM, [(1, 2, 3, "VRAM"), (1, 2, 3, b"a\0\xff")])) == [
        (1, 2, 3, b"VRAM"),
        (1, 2, 3, b"a\0\xff"),
    ]
    assert list(RemoteList(DRAM, [(1, 2, 3, "peer"), (1, 2, 3, b"peer")])) == [(1, 2, 3, "peer")] * 2


def test_numpy_scalars_are_integers():
    assert XferList(DRAM, [(np.uint64(TOP_BIT), np.int32(2), np.int64(3))])[0] == (TOP_BIT, 2, 3)


def test_init_size_gives_descriptors_of_zeros():
    assert list(XferList(DRAM, 2)) == [(0, 0, 0)] * 2
    assert XferList(DRAM, np.int64(2)).descCount() == 2
    with pytest.raises(ValueError, match="-1"):
        XferList(DRAM, -1)


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_c20_arrays_of_64_bit_integers_are_taken_as_they_lie(dtype):
    rows = np.array([[TOP_BIT, 16, 0], [1, 2, 3]], np.uint64).view(dtype)
    assert list(XferList(DRAM, rows)) == [(TOP_BIT, 16, 0), (1, 2, 3)]
    assert list(XferList(type=DRAM, descs=rows)) == [(TOP_BIT, 16, 0), (1, 2, 3)]
    assert list(RegList(DRAM, rows)) == [(TOP_BIT, 16, 0, b""), (1, 2, 3, b"")]


def test_c20_arrays_need_no_numpy():
    rows = memoryview(bytearray(48)).cast("Q", [2, 3])
    rows[1, 0] = TOP_BIT
    assert list(XferList(DRAM, rows)) == [(0, 0, 0), (TOP_BIT, 0, 0)]


def test_c20_a_read_only_array_is_taken():
    rows = np.ones((2, 3), np.uint64)
    rows.flags.writeable = False
    assert list(XferList(DRAM, rows)) == [(1, 1, 1)] * 2


def test_c20_an_array_without_rows_is_an_empty_list():
    assert XferList(DRAM, np.zeros((0, 3), np.uint64)).isEmpty()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 3), np.int32), "uint64 or int64.*'i'"),
        (np.zeros((2, 3), np.uint16), "uint64 or int64"),
        (np.zeros((2, 3), np.float64), "uint64 or int64.*'d'"),
        (np.zeros((2, 3), bool), "uint64 or int64"),
        (np.zeros((2, 3), ">u8"), "uint64 or int64"),
        (np.zeros((2, 3), object), "uint64 or int64"),
        (np.zeros(3, np.uint64), "Nx3.*1 dimensions"),
        (np.zeros((1, 2, 3), np.uint64), "Nx3.*3 dimensions"),
        (np.zeros((2, 4), np.uint64), "Nx3.*2x4"),
        (np.zeros((4, 3), np.uint64, order="F"), "C-contiguous"),
        (np.zeros((4, 6), np.uint64)[:, ::2], "C-contiguous"),
        (np.zeros((4, 3), np.uint64)[::-1], "C-contiguous"),
    ],
)
@pytest.mark.parametrize("kind", [XferList, RegList])
def test_c20_other_arrays_are_refused_in_words(kind, array, words):
    with pytest.raises(ValueError, match=words):
        kind(DRAM, array)


@pytest.mark.parametrize(
    ("desc", "error", "words"),
    [
        ((1, 2), ValueError, r"descs\[1\].*exactly 3 elements"),
        ((1, 2, 3, 4), ValueError, r"descs\[1\].*exactly 3 elements"),
        ([1, 2, 3], TypeError, r"descs\[1\] must be a tuple"),
        ((-1, 2, 3), RuntimeError, r"descs\[1\]: addr is -1"),
        ((1, 1 << 64, 3), RuntimeError, r"descs\[1\]: len is 18446744073709551616"),
        ((1, 2, "x"), RuntimeError, r"descs\[1\]: dev_id is 'x'"),
        ((1.0, 2, 3), RuntimeError, r"descs\[1\]: addr is 1.0"),
    ],
)
def test_c20_wrong_tuples_are_named_by_position(desc, error, words):
    with pytest.raises(error, match=words):
        XferList(DRAM, [(1, 2, 3), desc])


def test_every_integer_that_fits_is_taken():
    class Number:
        def __index__(self):
            return 9

    fields = (1 << 63, (1 << 64) - 1, (1 << 63) - 1), (0, True, 1 << 30), (np.uint64(7), Number(), np.int8(3))
    assert list(XferList(DRAM, list(fields))) == [
        (1 << 63, (1 << 64) - 1, (1 << 63) - 1),
        (0, 1, 1 << 30),
        (7, 9, 3),
    ]


def test_rows_of_an_array_need_not_be_aligned():
    rows = np.zeros(3 * 24 + 1, np.uint8)[1:].view(np.uint64).reshape(3, 3)
    rows[:] = np.arange(9).reshape(3, 3)
    assert not rows.flags.aligned
    for kind in (XferList, RegList):
        assert [tuple(desc)[:3] for desc in kind(DRAM, rows)] == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_wrong_texts_are_named_by_position():
    with pytest.raises(RuntimeError, match=r"descs\[0\]: meta is None"):
        RegList(DRAM, [(1, 2, 3, None)])
    with pytest.raises(RuntimeError, match=r"descs\[0\]: agent_name is 5"):
        RemoteList(DRAM, [(1, 2, 3, 5)])
    with pytest.raises(ValueError, match="exactly 4 elements"):
        RegList(DRAM, [(1, 2, 3)])


def test_a_tuple_field_may_empty_the_list_while_it_is_read():
    class Emptying:
        def __index__(self):
            descs.clear()
            return 7

    descs = [(Emptying(), 2, 3), (4, 5, 6)]
    assert list(XferList(DRAM, descs)) == [(7, 2, 3)]


def test_access_is_checked():
    descs = XferList(DRAM, [(1, 2, 3), (4, 5, 6)])
    assert len(descs) == 2
    assert (descs[-1], descs[-2]) == ((4, 5, 6), (1, 2, 3))
    assert (4, 5, 6) in descs
    for index in (2, -3, 1 << 40):
        with pytest.raises(IndexError):
            descs[index]
        with pytest.raises(IndexError):
            descs[index] = (1, 1, 1)
    for index in (2, -1):
        with pytest.raises(IndexError):
            descs.remDesc(index)
    assert list(descs) == [(1, 2, 3), (4, 5, 6)]


def test_changing_a_list():
    descs = XferList(DRAM)
    descs.append((1, 2, 3))
    descs.addDesc((4, 5, 6))
    descs[0] = (7, 8, 9)
    assert list(descs) == [(7, 8, 9), (4, 5, 6)]
    descs.remDesc(0)
    assert list(descs) == [(4, 5, 6)]
    descs.clear()
    assert descs.isEmpty() and descs.descCount() == 0
    with pytest.raises(TypeError):
        descs.append([1, 2, 3])
    with pytest.raises(ValueError, match="desc: .*exactly 3 elements"):
        descs.append((1, 2))


def test_a_list_is_true_even_if_it_is_empty():
    assert XferList(DRAM) and RegList(DRAM) and RemoteList(DRAM)


def test_index_ignores_meta_and_raises_for_what_is_not_there():
    assert XferList(DRAM, [(1, 2, 3), (4, 5, 6)]).index((4, 5, 6)) == 1
    regions = RegList(DRAM, [(1, 2, 3, "m")])
    assert regions.index((1, 2, 3, "other")) == 0
    with pytest.raises(nixlBind.nixlNotFoundError, match=r"^NIXL_ERR_NOT_FOUND: .*\(1, 2, 4\)"):
        regions.index((1, 2, 4, "m"))


def test_equality_and_hash():
    descs = XferList(DRAM, [(1, 2, 3)])
    assert descs == XferList(DRAM, [(1, 2, 3)])
    assert descs != XferList(nixlBind.VRAM_SEG, [(1, 2, 3)])
    assert descs != XferList(DRAM, [(1, 2, 4)])
    assert descs != 5
    assert RegList(DRAM, [(1, 2, 3, "a")]) != RegList(DRAM, [(1, 2, 3, "b")])
    with pytest.raises(TypeError):
        hash(descs)


def test_trim_leaves_meta_out():
    trimmed = RegList(nixlBind.FILE_SEG, [(1, 2, 3, "rw:/x")]).trim()
    assert isinstance(trimmed, XferList)
    assert (trimmed.getType(), list(trimmed)) == (nixlBind.FILE_SEG, [(1, 2, 3)])


def test_repr_says_what_is_in_it():
    assert repr(XferList(DRAM, [(1, 2, 3), (4, 5, 6)])) == "<nixlXferDList DRAM_SEG, 2 descriptors, 7 bytes>"


@pytest.mark.parametrize(
    "descs",
    [
        XferList(DRAM),
        XferList(nixlBind.VRAM_SEG, [(TOP_BIT, 2, 3)]),
        RegList(nixlBind.OBJ_SEG, [(1, 2, 3, b"\0k")] * 3),
    ],
)
def test_pickling_gives_an_equal_list(descs):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(descs, protocol)) == descs


@pytest.mark.parametrize("state", [b"", b"junk", b"nixlSerDes|", b"\xff" * 100])
def test_junk_as_pickled_state_raises(state):
    with pytest.raises(nixlBind.nixlMismatchError, match="^NIXL_ERR_MISMATCH: "):
        XferList.__new__(XferList).__setstate__(state)


def test_state_cut_anywhere_raises():
    state = RegList(DRAM, [(1, 2, 3, "meta")] * 2).__getstate__()
    for length in range(len(state)):
        with pytest.raises(nixlBind.nixlMismatchError):
            RegList.__new__(RegList).__setstate__(state[:length])
    with pytest.raises(nixlBind.nixlMismatchError):
        XferList.__new__(XferList).__setstate__(state)

"""Index arguments of makeXferReq: every integer type, checked, and named by position when they are wrong (C20)."""

import array

import numpy as np
import pytest
from agents import finish
from nixl import _bindings as nixlBind

GOOD = {
    "list": [3, 1, 2],
    "tuple": (3, 1, 2),
    "range": range(3),
    "list of numpy integers": [np.int64(3), np.uint8(1), np.int32(2)],
    "int32": np.array([3, 1, 2], np.int32),
    "int64": np.array([3, 1, 2], np.int64),
    "uint32": np.array([3, 1, 2], np.uint32),
    "uint64": np.array([3, 1, 2], np.uint64),
    "int16": np.array([3, 1, 2], np.int16),
    "uint8": np.array([3, 1, 2], np.uint8),
    "int8": np.array([3, 1, 2], np.int8),
    "big-endian int32": np.array([3, 1, 2], ">i4"),
    "big-endian uint64": np.array([3, 1, 2], ">u8"),
    "every other int32": np.array([3, 0, 1, 0, 2, 0], np.int32)[::2],
    "backwards int64": np.array([2, 1, 3], np.int64)[::-1],
    "read-only int32": np.frombuffer(np.array([3, 1, 2], np.int32).tobytes(), np.int32),
    "column of a table": np.array([[3, 0], [1, 0], [2, 0]], np.int32)[:, 0],
    "array of the standard library": array.array("q", [3, 1, 2]),
    "memoryview": memoryview(array.array("i", [3, 1, 2])),
}

# The value at position 1 is what the message must name.
OUT_OF_RANGE = {
    "negative": [0, -1],
    "negative in int32": np.array([0, -1], np.int32),
    "negative in int64": np.array([0, -1], np.int64),
    "negative in int8": np.array([0, -1], np.int8),
    "beyond the list": [0, 16],
    "beyond the list in int32": np.array([0, 16], np.int32),
    "wraps to 0 in 32 bits": np.array([0, 1 << 32], np.int64),
    "wraps to 0 in 32 bits, list": [0, 1 << 32],
    "2^31 in uint32": np.array([0, 1 << 31], np.uint32),
    "2^64-1": np.array([0, (1 << 64) - 1], np.uint64),
    "2^70": [0, 1 << 70],
    "-2^70": [0, -(1 << 70)],
}

NOT_INDICES = {
    "floats": np.array([0.0, 1.0]),
    "a list with a float": [0, 1.0],
    "a list with a str": [0, "1"],
    "a mask": np.array([True, False]),
    "two dimensions": np.zeros((1, 2), np.int32),
    "no dimension": np.array(1),
    "objects": np.array([0, 1], object),
    "bytes": b"\0\1",
    "str": "01",
    "None": None,
    "an int": 1,
}


def transfer(pair, indices):
    local, remote = pair.prepared()
    count = len(indices)
    handle = pair.a.make_prepped_xfer("WRITE", local, indices, remote, list(range(8, 8 + count)))
    pair.a.transfer(handle)
    finish(pair.a, handle)


@pytest.mark.parametrize("indices", GOOD.values(), ids=GOOD.keys())
def test_c20_indices_of_any_integer_type_move_the_blocks_they_name(pair, indices):
    transfer(pair, indices)
    for position, index in enumerate(indices):
        assert pair.target.bytes_of(8 + position) == pair.source.bytes_of(int(index))


@pytest.mark.parametrize("indices", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
@pytest.mark.parametrize("side", ["local_indices", "remote_indices"])
def test_c20_indices_out_of_range_are_refused_by_position(pair, indices, side):
    local, remote = pair.prepared()
    pair_of_indices = {"local_indices": [0, 1], "remote_indices": [0, 1], side: indices}
    with pytest.raises(nixlBind.nixlInvalidParamError, match="^NIXL_ERR_INVALID_PARAM: .*1") as raised:
        pair.a.make_prepped_xfer(
            "WRITE", local, pair_of_indices["local_indices"], remote, pair_of_indices["remote_indices"]
        )
    assert str(int(indices[1])) in str(raised.value) or "2^63-1" in str(raised.value)


@pytest.mark.parametrize("indices", NOT_INDICES.values(), ids=NOT_INDICES.keys())
def test_c20_what_are_no_indices_is_refused(pair, indices):
    local, remote = pair.prepared()
    with pytest.raises(ValueError, match="local_indices"):
        pair.a.make_prepped_xfer("WRITE", local, indices, remote, [0, 1])


@pytest.mark.parametrize("indices", [[], np.array([], np.int32), np.array([], np.int64)])
def test_c20_no_indices_are_refused(pair, indices):
    local, remote = pair.prepared()
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.make_prepped_xfer("WRITE", local, indices, remote, indices)


def test_c20_counts_that_differ_are_refused(pair):
    local, remote = pair.prepared()
    with pytest.raises(nixlBind.nixlInvalidParamError, match="1.*2|2.*1"):
        pair.a.make_prepped_xfer("WRITE", local, [0], remote, np.array([0, 1], np.int32))


def test_an_index_may_empty_the_list_while_it_is_read(pair):
    class Emptying:
        def __index__(self):
            indices.clear()
            return 3

    indices = [Emptying(), 1, 2]
    local, remote = pair.prepared()
    handle = pair.a.make_prepped_xfer("WRITE", local, indices, remote, [8])
    pair.a.transfer(handle)
    finish(pair.a, handle)
    assert pair.target.bytes_of(8) == pair.source.bytes_of(3)


def test_an_array_may_change_after_the_call(pair):
    local, remote = pair.prepared()
    indices = np.array([3, 1], np.int32)
    handle = pair.a.make_prepped_xfer("WRITE", local, indices, remote, np.array([8, 9], np.int32))
    indices[:] = -1
    pair.a.transfer(handle)
    finish(pair.a, handle)
    assert pair.target.bytes_of(8) == pair.source.bytes_of(3)
    assert pair.target.bytes_of(9) == pair.source.bytes_of(1)


@pytest.mark.parametrize("handles", [(0, 0), (0, 1), (1, 0), (0x10, 0x20)])
def test_handles_that_are_none_are_refused(pair, handles):
    local, remote = pair.prepared()
    values = [value if value != 1 else handle._handle for value, handle in zip(handles, (local, remote))]
    with pytest.raises(nixlBind.nixlInvalidParamError):
        pair.a.agent.makeXferReq(nixlBind.NIXL_WRITE, values[0], [0], values[1], [0])

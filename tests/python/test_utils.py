"""nixl._utils: memory by address."""

import ctypes

import pytest
from nixl import _utils


def test_memory_is_aligned_and_can_be_filled_and_compared():
    a, b = _utils.malloc_passthru(5000), _utils.malloc_passthru(5000)
    assert a % 4096 == 0 and b % 4096 == 0
    for address in (a, b):
        _utils.ba_buf(address, 5000)
        assert ctypes.string_at(address, 5000) == b"\xba" * 5000
    _utils.verify_transfer(a, b, 5000)
    ctypes.memset(b + 4999, 0, 1)
    _utils.verify_transfer(a, b, 4999)
    with pytest.raises(AssertionError, match="byte 4999 of 5000 differs: 186 and 0"):
        _utils.verify_transfer(a, b, 5000)
    _utils.free_passthru(a)
    _utils.free_passthru(b)


def test_sizes_that_cannot_be():
    for size in ((1 << 64) - 1, 1 << 62):
        with pytest.raises(MemoryError):
            _utils.malloc_passthru(size)


def test_the_null_address_is_refused():
    _utils.free_passthru(0)
    with pytest.raises(ValueError):
        _utils.ba_buf(0, 1)
    with pytest.raises(ValueError):
        _utils.verify_transfer(0, 0, 1)
    _utils.ba_buf(0, 0)

"""The bytes of a measurement: which blocks move, what memory holds before, and whether it holds the right ones after.

Both sides fill their memory so that every 8-byte word differs from every other word of both.
"""

import numpy as np

LOCAL, REMOTE = 1, 2
_STEP = 0x9E3779B97F4A7C15
_CHUNK = 16 << 20


def positions(total, count, seed=0):
    """Numbers of `count` of `total` blocks in a random order, for the two sides: (local, remote)."""
    random = np.random.default_rng(seed)
    return tuple(random.permutation(total)[:count].astype(np.int64) for _ in range(2))


def rows(base, block, numbers):
    """The blocks as an N x 3 array (address, length, device), as `get_xfer_descs` takes it."""
    table = np.zeros((numbers.size, 3), dtype=np.uint64)
    table[:, 0] = np.uint64(base) + numbers.astype(np.uint64) * np.uint64(block)
    table[:, 1] = block
    return table


def fill(data, side):
    """Gives memory (whole 8-byte words) the content of its side."""
    words = data.view(np.uint64)
    count = np.arange(_CHUNK // 8, dtype=np.uint64) + _first_word(side)
    for begin in range(0, words.size, count.size):
        part = words[begin : begin + count.size]
        np.add(count[: part.size], np.uint64(begin), out=part)


def wrong_block(data, side, block, at=(), source=()):
    """Checks every byte: block at[i] must hold the other side's block source[i], all others their own side's content.

    Returns the number of the first block that does not, or None. A rest smaller than a block counts as one.
    """
    words = block // 8
    whole = data.size // block
    starts = np.arange(whole, dtype=np.uint64) * np.uint64(words) + _first_word(side)
    starts[np.asarray(at, dtype=np.int64)] = _starts(source, words, _other(side))
    wrong = _first_difference(data[: whole * block].view(np.uint64).reshape(whole, words), starts)
    if wrong is None and whole * block < data.size:
        rest = data[whole * block :].view(np.uint64)[None, :]
        start = np.array([whole * words], dtype=np.uint64) + _first_word(side)
        wrong = None if _first_difference(rest, start) is None else whole
    return wrong


def wrong_copy(data, side, block, at, source):
    """As wrong_block, of one block alone: whether block `at` does not hold the other side's block `source`."""
    words = block // 8
    found = data[at * block : (at + 1) * block].view(np.uint64)[None, :]
    return _first_difference(found, _starts([source], words, _other(side))) is not None


def _other(side):
    return LOCAL + REMOTE - side


def _first_word(side):
    return np.uint64(side * _STEP % 2**64)


def _starts(numbers, words, side):
    return np.asarray(numbers, dtype=np.uint64) * np.uint64(words) + _first_word(side)


def _first_difference(found, starts):
    """The first row of `found` whose words do not count up from starts[row]."""
    width = max(1, min(found.shape[1], _CHUNK // 8))
    height = max(1, _CHUNK // 8 // width)
    wrong = None
    for column in range(0, found.shape[1], width):
        for row in range(0, found.shape[0] if wrong is None else wrong, height):
            part = found[row : row + height, column : column + width]
            count = np.arange(column, column + part.shape[1], dtype=np.uint64)
            same = (part == starts[row : row + height, None] + count).all(axis=1)
            if not same.all():
                wrong = row + int(np.argmin(same))
                break
    return wrong

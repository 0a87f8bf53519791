"""Which block of the file lies where in decode's cache."""

from __future__ import annotations

import random

# Decode's cache is a little larger than what it receives. Three blocks already cannot lie apart in three places.
SPARE_BLOCKS = 2
# Places are numbered with 32 bits, as the indices of requests are.
LARGEST_PLACES = (1 << 31) - 1
BLOCKS_PER_REQUEST = 8192


def block_count(total_bytes: int, block_bytes: int) -> int:
    """Blocks that hold so many bytes; the last one may be filled in part."""
    return -(-total_bytes // block_bytes)


def in_order(blocks: int) -> list[int]:
    """Block i at place i: everything can be merged."""
    return list(range(blocks))


def scattered(blocks: int, places: int, seed: int) -> list[int]:
    """A random place for each block, no two the same, and no block beside the next one, on either side.

    The same for the same arguments everywhere. REQUIRES: places >= blocks + SPARE_BLOCKS.
    """
    chance = random.Random(seed)
    order = list(range(places))
    while True:
        chance.shuffle(order)
        if _part_neighbours(order, blocks, chance):
            return order[:blocks]


def _part_neighbours(order: list[int], blocks: int, chance: random.Random) -> bool:
    """Exchanges places until no two of the first `blocks` are neighbours; a shuffle leaves about two that are."""
    for i in range(blocks - 1):
        tries = 0
        while abs(order[i + 1] - order[i]) == 1:
            if tries == 100:
                return False
            tries += 1
            j = chance.randrange(len(order))
            order[i + 1], order[j] = order[j], order[i + 1]
            if any(_beside_next(order, k, blocks) for k in (i, i + 1, j - 1, j)):
                order[i + 1], order[j] = order[j], order[i + 1]
    return True


def _beside_next(order: list[int], i: int, blocks: int) -> bool:
    return 0 <= i < blocks - 1 and abs(order[i + 1] - order[i]) == 1


def request_spans(blocks: int) -> list[range]:
    """The blocks of each request, in the order of the file."""
    return [range(at, min(at + BLOCKS_PER_REQUEST, blocks)) for at in range(0, blocks, BLOCKS_PER_REQUEST)]

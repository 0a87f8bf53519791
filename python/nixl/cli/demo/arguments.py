"""What the user of `nixl demo` can ask for."""

from __future__ import annotations

import argparse

from ..text import binary_size, parse_size

SMALLEST_BLOCK = 64
LARGEST_BLOCK = 1 << 30
LONGEST_TIMEOUT_S = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="what to move; without it, 100 MB of files of this machine"
    )
    parser.add_argument("--backend", default="LOCAL", metavar="NAME", help="engine to create (default: LOCAL)")
    parser.add_argument(
        "--block-size", default=16 << 10, type=_block_size, metavar="BYTES", help="4096, 16K, 1M (default: 16K)"
    )
    parser.add_argument("--out", metavar="FILE", help="save there what decode received")
    parser.add_argument(
        "--merge", action="store_true", help="keep the blocks in order, so that neighbours can be merged"
    )
    parser.add_argument("--seed", default=0, type=int, metavar="N", help="of the permutation (default: 0)")
    parser.add_argument(
        "--repeat", default=1, type=_positive, metavar="N", help="move everything N times, report medians (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, and no progress")
    parser.add_argument(
        "--timeout",
        default=60.0,
        type=_seconds,
        metavar="SECONDS",
        help="give up when a process shows no progress for so long (default: 60)",
    )


def _block_size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not SMALLEST_BLOCK <= size <= LARGEST_BLOCK:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not between {binary_size(SMALLEST_BLOCK)} and {binary_size(LARGEST_BLOCK)}"
        )
    return size


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 1000000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0, at most {LONGEST_TIMEOUT_S}")
    return seconds

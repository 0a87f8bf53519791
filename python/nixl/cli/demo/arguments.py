"""What the user of `nixl demo` can ask for."""

from __future__ import annotations

import argparse

from ..text import binary_size, parse_size
from . import address

SMALLEST_BLOCK = 64
LARGEST_BLOCK = 1 << 30
LARGEST_REPEAT = 1_000_000
LONGEST_TIMEOUT_S = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="what to move; without it, 100 MB of files of this machine"
    )
    hosts = parser.add_mutually_exclusive_group()
    hosts.add_argument(
        "--listen",
        type=address.to_listen_on,
        metavar="[ADDRESS:]PORT",
        help="be decode for one run of another `nixl demo --connect`; without ADDRESS only for this host. Whoever "
        "reaches the port is served: there is no authentication. Port 0: any free one, which is printed",
    )
    hosts.add_argument(
        "--connect",
        type=address.of_peer,
        metavar="HOST:PORT",
        help="be prefill, and let decode be the `nixl demo --listen` there",
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help="engine to create and to hold the transfers to (default: LOCAL; UCX with --connect; with --listen what "
        "the other side asks for)",
    )
    parser.add_argument(
        "--block-size", default=16 << 10, type=_block_size, metavar="BYTES", help="4096, 16K, 1M (default: 16K)"
    )
    parser.add_argument("--out", metavar="FILE", help="save there what decode received (with --listen, not --connect)")
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


# What only the side that drives the run can say.
_OF_THE_DRIVER = ("file", "block_size", "merge", "seed", "repeat", "json")


def settle(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuses options that do not go together, and fills in the backend."""
    if args.listen:
        for name in _OF_THE_DRIVER:
            if getattr(args, name) != parser.get_default(name):
                option = "FILE" if name == "file" else f"--{name.replace('_', '-')}"
                parser.error(f"{option} is for the side that connects, not with --listen")
    elif args.connect and args.out is not None:
        parser.error("--out is for the side that listens, not with --connect")
    elif args.backend is None:
        args.backend = "UCX" if args.connect else "LOCAL"


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
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= LARGEST_REPEAT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {LARGEST_REPEAT}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0, at most {LONGEST_TIMEOUT_S}")
    return seconds

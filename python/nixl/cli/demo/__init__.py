"""`nixl demo [FILE]`: moves a file between the paged KV caches of two processes, and checks it.

The story, from the outside in:

    arguments.py    what can be asked for
    source.py       the file, or files of this machine
    target.py       where --out goes
    memory.py       whether the caches fit
    layout.py       which block goes where
    run.py          the steps, in order
    supervisor.py   starts the two processes, gives orders, notices death and hanging
    worker.py       a process's loop of orders
    participant.py  what both roles do: an agent, a peer, requests, notifications
    prefill.py      the role that holds the file and WRITEs it
    decode.py       the role that receives it and READs it back
    cache.py        the paged cache itself
    report.py       the result as a table or as JSON
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import NoReturn

from .. import output
from ..progress import Progress
from ..text import one_line
from . import report
from .arguments import add_arguments
from .errors import Failed, Refused
from .run import run
from .source import find_source
from .target import Target

REFUSED, FAILED, INTERRUPTED = 2, 1, 130


def add_command(commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="move a file between two processes as scattered blocks",
        description="Starts two processes, `prefill` and `decode`. Prefill holds FILE as the blocks of a paged KV "
        "cache and WRITEs them to scattered blocks of decode, decode READs them back, and both check SHA-256.",
        epilog="Exit code: 0 verified; 1 the transfer failed, bytes differ, or the result cannot be written; "
        "2 the input cannot be used.",
        allow_abbrev=False,
    )
    add_arguments(parser)
    parser.set_defaults(run=run_command, parser=parser)


def run_command(args: argparse.Namespace) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end_by_signal)
    progress = Progress(sys.stderr, quiet=args.json)
    try:
        source = find_source(args.file)
        with Target(args.out, source) as target:
            outcome = run(args, source, target, progress)
            if outcome.verified:
                target.keep()
    except (Refused, Failed) as error:
        progress.abandon()
        _complain(str(error))
        return REFUSED if isinstance(error, Refused) else FAILED
    except KeyboardInterrupt:
        progress.abandon()
        _complain("interrupted")
        return INTERRUPTED
    told = output.print_result("nixl demo", (report.as_json(outcome) if args.json else report.as_table(outcome)) + "\n")
    if not outcome.verified:
        _complain(f"verification failed: {outcome.difference}")
        return FAILED
    return 0 if told else FAILED


def _complain(text: str) -> None:
    output.write(sys.stderr, f"nixl demo: {one_line(text)}\n")


def _end_by_signal(number: int, _frame) -> NoReturn:
    # An exception, so that the processes are ended and a half-written --out is removed.
    raise SystemExit(128 + number)

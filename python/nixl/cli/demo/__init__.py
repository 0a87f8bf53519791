"""`nixl demo [FILE]`: moves a file between the paged KV caches of two processes, and checks it.

The processes are of this host, or one is started by `nixl demo --listen` on another.

The story, from the outside in:

    arguments.py    what can be asked for
    source.py       the file, or files of this machine
    target.py       where --out goes
    memory.py       whether the caches fit
    layout.py       which block goes where
    run.py          the steps, in order
    supervisor.py   gives orders to both sides, notices death and hanging
    member.py       a side: a process started here, or one behind a connection
    listen.py       the side of --listen, which serves a supervisor elsewhere
    protocol.py     what travels between hosts, and what of it is believed
    link.py         messages over a socket
    address.py      HOST:PORT, and connections
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
from .arguments import add_arguments, settle
from .errors import Failed, Refused
from .listen import serve_one_run
from .run import Outcome, run
from .source import find_source
from .target import Target

REFUSED, FAILED, INTERRUPTED = 2, 1, 130


def add_command(commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="move a file between two processes as scattered blocks",
        description="Starts two processes, `prefill` and `decode`. Prefill holds FILE as the blocks of a paged KV "
        "cache and WRITEs them to scattered blocks of decode, decode READs them back, and both check SHA-256. "
        "With --listen on one host and --connect on another, each starts one of the two.",
        epilog="Exit code: 0 verified; 1 the transfer failed or took another path than --backend, bytes differ, the "
        "other side is out of reach, or the result cannot be written; 2 the input cannot be used.",
        allow_abbrev=False,
    )
    add_arguments(parser)
    parser.set_defaults(run=run_command, parser=parser)


def run_command(args: argparse.Namespace) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end_by_signal)
    settle(args, args.parser)
    progress = Progress(sys.stderr, quiet=args.json)
    difference = ""
    try:
        if args.listen:
            told = serve_one_run(args)
        else:
            outcome = _run(args, progress)
            told, difference = (report.as_json if args.json else report.as_table)(outcome), outcome.difference
    except (Refused, Failed) as error:
        progress.abandon()
        _complain(str(error))
        return REFUSED if isinstance(error, Refused) else FAILED
    except KeyboardInterrupt:
        progress.abandon()
        _complain("interrupted")
        return INTERRUPTED
    printed = output.print_result("nixl demo", told + "\n")
    if difference:
        _complain(f"verification failed: {difference}")
    return 0 if printed and not difference else FAILED


def _run(args: argparse.Namespace, progress: Progress) -> Outcome:
    source = find_source(args.file)
    with Target(args.out, source.bytes) as target:
        outcome = run(args, source, target, progress)
        if outcome.verified:
            target.keep()
    return outcome


def _complain(text: str) -> None:
    output.write(sys.stderr, f"nixl demo: {one_line(text)}\n")


def _end_by_signal(number: int, _frame) -> NoReturn:
    # An exception, so that the processes are ended and a half-written --out is removed.
    raise SystemExit(128 + number)

"""The console command `nixl`; every sub-command is a module or package here that offers `add_command`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import demo


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line and ends with 2, as the commands do for input they cannot use."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="nixl", description="Moves blocks of memory between processes.", allow_abbrev=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    demo.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the program's) and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # File names may hold bytes, and terminals may lack letters, that cannot be printed as they are.
            stream.reconfigure(errors="backslashreplace")
    args, unknown = build_parser().parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output went away (`nixl demo | head -1`); keep the exit of Python quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1

"""The console command `nixl`; every sub-command is a module or package here that offers `add_command`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from .. import logging
from . import demo, output


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line and ends with 2, as the commands do for input they cannot use."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")

    def print_help(self, file: TextIO | None = None) -> None:
        """Prints the help; to stdout like a result, since that is what was asked for."""
        if file is not None:
            output.write(file, self.format_help())
        elif not output.print_result(self.prog, self.format_help()):
            raise SystemExit(1)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            output.write(sys.stderr, message)
        raise SystemExit(status)


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="nixl", description="Moves blocks of memory between processes.", allow_abbrev=False)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    demo.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: the program's) and returns the exit code. stdout is for results alone."""
    output.prepare_streams()
    logging.send_lines_to(sys.stderr)
    args, unknown = build_parser().parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args.run(args)

"""Runs the test bed: `./dev chaos`, or `python -m chaos` with tests/ and the package on PYTHONPATH."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from .engines import BREAK, ENGINES, FAULTS, Engine
from .network import Unavailable, missing
from .report import Outcome, as_json, passed, text
from .schedule import schedule
from .trial import Trial
from .world import world

LEAST_S = 5.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="all engines together (3)")
    parser.add_argument("--seed", type=int, help="of the schedule; a random one otherwise")
    parser.add_argument("--engines", type=names_of(ENGINES), default=list(ENGINES), help=", ".join(ENGINES))
    parser.add_argument("--faults", type=names_of(FAULTS), default=list(FAULTS), help=", ".join(FAULTS))
    parser.add_argument("--json", action="store_true", help="the report as JSON on the standard output")
    parser.add_argument("--schedule", action="store_true", help="print the faults of the run, and run nothing")
    parser.add_argument(
        "--peer", default=os.environ.get("PEER_PYTHON"), help="a Python with NIXL's wheel (PEER_PYTHON)"
    )
    return parser.parse_args()


def names_of(table):
    def parse(value: str) -> list[str]:
        names = value.split(",")
        for name in names:
            if name not in table:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(table)}")
        return names

    return parse


class Bar:
    """On a terminal: which engine, how far. Otherwise a line per engine."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, engine: str, share: float) -> None:
        width = min(40, shutil.get_terminal_size().columns - 20)
        line = f"\r{engine:<6} [{'#' * int(share * width):<{width}}] {share:4.0%}" if self._terminal else engine
        if line != self._shown:
            print(line, file=sys.stderr, end="" if self._terminal else "\n", flush=True)
            self._shown = line

    def done(self) -> None:
        if self._terminal:
            print("\r\033[K", file=sys.stderr, end="", flush=True)


def why_not(engine: Engine, lacks: dict[str, str], peer_python: str | None) -> str:
    if engine.cable and "cable" in lacks:
        return lacks["cable"]
    if "nixl_cu13" in engine.packages and not (peer_python and Path(peer_python).exists()):
        return "PEER_PYTHON names no Python with NIXL's wheel"
    return ""


def share_of(name: str) -> int:
    """Of the time, as an engine's faults need it to come equally often."""
    return max(4, len(ENGINES[name].faults))


def run(options: argparse.Namespace, seed: int, bar: Bar) -> list[Outcome]:
    lacks = missing()
    outcomes = []
    for name in options.engines:
        engine = ENGINES[name]
        outcome = Outcome(engine, skipped=why_not(engine, lacks, options.peer))
        outcomes.append(outcome)
        if outcome.skipped:
            continue
        wanted = [fault for fault in engine.faults if fault in options.faults]
        outcome.lacking = {f: lacks[need] for f in wanted for need in FAULTS[f].needs if need in lacks}
        outcome.chosen = [fault for fault in wanted if fault not in outcome.lacking]
        seconds = max(LEAST_S, options.minutes * 60 * share_of(name) / sum(map(share_of, options.engines)))
        events = schedule(engine, outcome.chosen, seed, seconds)
        if options.schedule:
            print(f"{name}:", *events, sep="\n")
            continue
        begin = time.monotonic()
        with world(engine, seed, options.peer, os.environ.get(BREAK, "")) as made:
            trial = Trial(engine, made, events, seconds, lambda share, name=name: bar.show(name, share))
            outcome.model = trial.run()
        outcome.seconds = time.monotonic() - begin
    return outcomes


def main() -> int:
    options = arguments()
    # Everything that was made is taken back on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    replay = f"./dev chaos --minutes {options.minutes:g} --seed {seed}"
    if options.engines != list(ENGINES):
        replay += f" --engines {','.join(options.engines)}"
    if options.faults != list(FAULTS):
        replay += f" --faults {','.join(options.faults)}"
    print(f"seed {seed}", file=sys.stderr, flush=True)
    bar = Bar()
    try:
        outcomes = run(options, seed, bar)
    except Unavailable as reason:
        print(f"FAIL  {reason}  again: {replay}")
        return 1
    finally:
        bar.done()
    if options.schedule:
        return 0
    print(json.dumps(as_json(outcomes, seed, replay), indent=1) if options.json else text(outcomes, replay))
    return 0 if passed(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

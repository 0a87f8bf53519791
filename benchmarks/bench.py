#!/usr/bin/env python3
"""Measures ours, NIXL and what the machine allows, in turns, and compares.

    bench.py [GROUP...] [--quick]      groups: host, tcp, calls, cases, micro; without any: all

Standard output gets the table, or with --json all figures; build/bench gets results.json, table.md and bandwidth.png.
`./dev bench` builds what is measured and calls this; README.md beside this says how the figures are taken.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from driver import cases, machine, micro, plot, table
from driver.cases import Case, Scale
from driver.figures import LIMIT, NIXL, OURS, Row
from driver.limits import HostLimit, UcxLimit
from driver.network import Network, Unavailable, veth
from driver.participants import Failed, Pair
from driver.run import Progress, measure

HERE = Path(__file__).resolve().parent
# What NIXL can be told so that its TCP frames are as long as ours; every default receiver takes them.
SEGMENTS = "NIXL, 64 KiB segments"
SEGMENT_SETTINGS = {"UCX_TCP_TX_SEG_SIZE": "64K", "UCX_TCP_RX_SEG_SIZE": "64K"}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(cases.GROUPS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="less memory, fewer blocks and rounds: a first impression")
    parser.add_argument("--filter", metavar="TEXT", default="", help="only cases whose name contains it")
    parser.add_argument("--rounds", type=int, help="how often everybody has a turn")
    parser.add_argument("--mib", type=int, help="memory of each side")
    parser.add_argument("--minutes", type=float, help="no case begins later than this")
    parser.add_argument("--threads", type=int, help="threads of the limit; otherwise as many as ours copies with")
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead of the table")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="put the tables into this page")
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="folder for the files")
    parser.add_argument("--ours", default=sys.executable, metavar="PYTHON", help="interpreter for ours")
    parser.add_argument("--ours-path", default="", metavar="FOLDER", help="where it finds the package nixl")
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter that has NIXL; without it only ours is measured")
    parser.add_argument("--peer-path", default="", metavar="FOLDER", help="where it finds its packages")
    parser.add_argument("--peer-module", default="nixl_cu13")
    parser.add_argument("--limit-program", type=Path, metavar="FILE", help="limit_host")
    parser.add_argument("--micro-program", type=Path, metavar="FILE", help="the micro benchmarks")
    parser.add_argument("--ucx", type=Path, metavar="FOLDER", help="UCX with bin/ucx_perftest")
    options = parser.parse_args(given)
    for group in options.groups:
        if group not in cases.GROUPS:
            parser.error(f"unknown group '{group}'; there are {', '.join(cases.GROUPS)}")
    for name in ("threads", "rounds", "mib", "minutes"):
        number = getattr(options, name)
        if number is not None and (number < 1 if isinstance(number, int) else not number > 0):
            parser.error(f"--{name} takes a number {'from 1' if isinstance(number, int) else 'above 0'}")
    options.groups = options.groups or list(cases.GROUPS)
    return options


class Bench:
    """Keeps the participants of the present case running and replaces them where the next needs others."""

    def __init__(self, options: argparse.Namespace, scale: Scale, progress: Progress) -> None:
        self._options, self._scale, self._progress = options, scale, progress
        self._setting: tuple | None = None
        self._running: list[tuple[str, object]] = []
        self._networks = contextlib.ExitStack()
        self._unavailable: dict[str, str] = {}
        self.about: dict[str, dict[str, object]] = {}

    def rows(self, group: str, case: Case) -> list[Row]:
        """Without rows the case cannot be measured here, and the reason was told."""
        setting = (cases.memory_mib(group, self._scale), case.kind, tuple(case.environment.items()), case.network)
        if case.network in self._unavailable:
            return []
        if setting != self._setting:
            self.close()
            try:
                network = self._networks.enter_context(veth()) if case.network else Network()
            except Unavailable as reason:
                self._unavailable[case.network] = str(reason)
                self._progress.note(f"cases over {case.network} are skipped: {reason}")
                return []
            self._start(group, case, setting[0], network)
            self._setting = setting
        taking_part = [entry for entry in self._running if self._takes_part(entry[0], case)]
        return measure(group, case, self._named(taking_part), self._scale.rounds, self._progress)

    @staticmethod
    def _named(running: list[tuple[str, object]]) -> Iterator[tuple[str, object]]:
        for name, participant in running:
            yield (LIMIT if name.startswith(LIMIT) else name), participant

    @staticmethod
    def _takes_part(name: str, case: Case) -> bool:
        if name == SEGMENTS:
            return case.plot is not None
        if name.startswith(LIMIT):
            methods = set(case.limit.methods.values()) if case.limit else set()
            return bool(methods) and ("perftest" in methods) == (name == f"{LIMIT} ucx")
        return True

    def _start(self, group: str, case: Case, mib: int, network: Network) -> None:
        options = self._options
        base = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        base |= {"NIXL_LOG_LEVEL": "ERROR"} | case.environment
        script = str(HERE / "kv_bench.py")
        tcp = bool(case.environment)
        setting = f"{group}, {network.name or case.kind}"

        def pair(name: str, command: list[str], path: str, kind: str, more: dict[str, str]) -> None:
            environment = base | more | ({"PYTHONPATH": path} if path else {})
            self._join(setting, name, lambda: Pair(name, command, environment, mib, kind, network, options.logs))

        pair(OURS, [options.ours, script, "nixl"], options.ours_path, case.kind, {})
        if options.peer:
            command = [options.peer, script, options.peer_module]
            # At this level UCX says which lanes it uses; it does so once, when it connects.
            talking = {"UCX_LOG_LEVEL": "info"}
            pair(NIXL, command, options.peer_path, "private", talking)
            if tcp:
                pair(SEGMENTS, command, options.peer_path, "private", talking | SEGMENT_SETTINGS)
        if options.limit_program:
            of_ours = self.about.get(f"{setting}: {OURS}", {}).get("threads", machine.cores())
            settings = (options.limit_program, mib, options.threads or of_ours, self._scale.repetitions, options.logs)
            self._join(setting, f"{LIMIT} host", lambda: HostLimit(*settings))
        if options.ucx and tcp:
            self._join(setting, f"{LIMIT} ucx", lambda: UcxLimit(options.ucx, network, self._scale.puts, options.logs))

    def _join(self, setting: str, name: str, make: Callable[[], object]) -> None:
        try:
            participant = make()
        except Failed as failure:
            self._progress.note(f"{failure}")
            return
        self._running.append((name, participant))
        if about := getattr(participant, "about", None):
            self.about[f"{setting}: {name}"] = about

    def close(self) -> None:
        for _, participant in self._running:
            participant.close()
        self._running = []
        self._setting = None
        self._networks.close()


def kinds_of_ours(options: argparse.Namespace) -> list[str]:
    """Kinds of memory that ours knows; see kv/side.py."""
    environment = os.environ | ({"PYTHONPATH": options.ours_path} if options.ours_path else {})
    program = "import nixl; print('private', 'alloc' if hasattr(nixl, 'alloc') else '')"
    found = subprocess.run([options.ours, "-c", program], env=environment, capture_output=True, text=True)
    if found.returncode != 0:
        raise Failed(f"cannot import nixl with {options.ours}: {found.stderr.strip().splitlines()[-1]}")
    return found.stdout.split()


def scale_of(options: argparse.Namespace) -> Scale:
    scale = cases.QUICK if options.quick else cases.FULL
    mib = options.mib or scale.mib
    large = tuple(n for n in scale.large if n <= mib << 20)
    return dataclasses.replace(scale, mib=mib, rounds=options.rounds or scale.rounds, large=large)


def run(options: argparse.Namespace) -> dict[str, object]:
    """Measures what the options ask for and writes the files. Returns everything as JSON has it."""
    options.logs = options.output / "logs"
    options.logs.mkdir(parents=True, exist_ok=True)
    scale, where = scale_of(options), machine.describe()
    chosen = cases.select(tuple(options.groups), scale, kinds_of_ours(options))
    chosen = [(group, case) for group, case in chosen if options.filter in case.name]
    progress = Progress(sum(case.rounds or scale.rounds for _, case in chosen))
    bench = Bench(options, scale, progress)
    measured: list[tuple[Case, list[Row]]] = []
    rows: list[Row] = []
    results = {
        "machine": where,
        "settings": {"quick": options.quick} | dataclasses.asdict(scale),
        "about": bench.about,
        "rows": [],
    }
    end = time.monotonic() + 60 * (options.minutes or math.inf)
    try:
        for group, case in chosen:
            if time.monotonic() > end:
                progress.note(f"no time is left for {group}: {case.name}")
                continue
            measured.append((case, bench.rows(group, case)))
            rows += measured[-1][1]
            # What was measured by now survives the end of this process.
            results["rows"] = [row.as_dict() for row in rows]
            write(options, results, rows)
    finally:
        bench.close()
        progress.end()
    if "micro" in options.groups and options.micro_program:
        progress.note("micro benchmarks")
        rows += micro.measure(options.micro_program, scale.rounds, 0.02 if options.quick else 0.2)
        results["rows"] = [row.as_dict() for row in rows]
    sections = write(options, results, rows)
    if options.markdown:
        for group, content in sections.items():
            table.replace_section(options.markdown, group, content)
    try:
        plot.draw(measured, options.output / "bandwidth.png", machine.sentence(where))
    except ImportError as error:
        print(f"no plot: {error}", file=sys.stderr)
    return results | {"table": rows}


def write(options, results, rows) -> dict[str, str]:
    """Figures and tables into their files. Returns what a page has to say of each group that was measured."""
    (options.output / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sections = {}
    for group in dict.fromkeys(row.group for row in rows):
        lanes = paths({name: facts for name, facts in results["about"].items() if name.startswith(f"{group}, ")})
        of_group = table.markdown([row for row in rows if row.group == group])
        sections[group] = "\n\n".join(part for part in (taken_on(results), lanes, of_group) if part)
    page = "\n\n".join(f"## {name}\n\n{content}" for name, content in sections.items())
    (options.output / "table.md").write_text(page + "\n", encoding="utf-8")
    return sections


def taken_on(results: dict[str, object]) -> str:
    """The machine and how much was measured, which decide what a figure is worth."""
    settings = results["settings"]
    return (
        f"{machine.sentence(results['machine'])}. {'A quick run: m' if settings['quick'] else 'M'}emory of "
        f"{settings['mib']} MiB a side, {settings['rounds']} rounds."
    )


def paths(about: dict[str, dict[str, object]]) -> str:
    """A line per participant: the lane it took, how it treats errors, what it copies with and between which pages."""
    lines = []
    for name, facts in about.items():
        parts = [facts["path"] or "lane not told"]
        if facts.get("error_mode"):
            parts.append(f"error mode {facts['error_mode']}")
        if facts["threads"] > 1:
            parts.append(f"copies with up to {facts['threads']} threads")
        parts.append("{:.0%} and {:.0%} of the two memories in huge pages".format(*facts["huge_pages"]))
        if "agent_s" in facts:
            parts.append(f"agent in {facts['agent_s']:.2f} s, first transfer in {facts['first_transfer_s']:.3f} s")
        lines.append(f"- {name}: {'; '.join(parts)}")
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    # What was started and set up is then taken back, as after an interrupt.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        results = run(options)
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    rows = results.pop("table")
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print(taken_on(results))
        print(paths(results["about"]))
        for group in options.groups:
            of_group = [row for row in rows if row.group == group]
            if of_group:
                print(f"\n{group}\n{table.text(of_group)}")
        print(f"\nfiles: {options.output}/results.json, table.md, bandwidth.png, logs")
    # What ours could not do is a failure; NIXL and the limit may be missing.
    return 0 if rows and all(OURS in row.rounds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The programs as people run them, ours alone and small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks" / "bench.py"
KV_BENCH = ROOT / "benchmarks" / "kv_bench.py"


def run(*command, cwd):
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=240)


def bench(*options, cwd):
    path = os.environ.get("PYTHONPATH", "")
    return run(BENCH, "--quick", "--mib", 8, "--rounds", 2, "--ours-path", path, "--output", "out", *options, cwd=cwd)


def test_scattered_blocks_of_ours_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- figures: host -->\n<!-- end of figures -->\n<!-- figures: paths -->\n<!-- end of figures -->\n"
    )
    done = bench("host", "--filter", "4 KiB, private memory", "--json", "--markdown", page, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    figures = [(row["figure"], row["unit"]) for row in results["rows"]]
    assert ("WRITE", "GB/s") in figures and ("READ", "GB/s") in figures and ("post of the WRITE", "us") in figures
    for row in results["rows"]:
        rounds = row["participants"]["ours"]["rounds"]
        assert len(rounds) == 2 and all(figure > 0 for figures in rounds for figure in figures)
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
    about = results["about"]["host, private: ours"]
    assert "process_vm" in about["path"]
    # The thread that posts, and one that copies at least.
    assert about["threads"] >= 2 and all(0 <= share <= 1 for share in about["huge_pages"])
    written = page.read_text()
    for part in ("A quick run: memory of 8 MiB a side, 2 rounds", "host, private: ours: ", "memory: WRITE | GB/s |"):
        assert part in written
    assert (tmp_path / "out" / "table.md").read_text().startswith("## host\n")


def test_a_wrong_peer_is_named_and_ours_is_measured_all_the_same(tmp_path):
    done = bench("host", "--filter", "one of 8 B", "--peer", sys.executable, "--peer-module", "no_such", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "NIXL ended" in done.stderr and "no_such" in done.stderr
    assert "one of 8 B, private memory: WRITE" in done.stdout


def test_nothing_measured_is_a_failure(tmp_path):
    assert bench("host", "--filter", "no such case", cwd=tmp_path).returncode == 1


def test_cases_for_which_no_time_is_left_are_named_and_the_rest_is_kept(tmp_path):
    done = bench("host", "--filter", "one of 8 B", "--minutes", "0.003", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no time is left for host: one of 8 B, private memory" in done.stderr
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["figure"] for row in rows] == ["WRITE"]


@pytest.mark.parametrize("options", [["hots"], ["host", "--rounds", "0"], ["host", "--minutes", "0"]])
def test_wrong_options_are_refused(tmp_path, options):
    done = run(BENCH, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert options[-2 if len(options) > 1 else 0] in done.stderr


def test_command_that_is_named_runs_the_target(tmp_path):
    via = tmp_path / "via"
    via.write_text('#!/bin/sh\ntouch used\nexec "$@"\n')
    via.chmod(0o755)
    done = run(KV_BENCH, "nixl", "--mib", 4, "--target-via", via, "--call", "idle", "seconds=0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "used").exists()


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (["scattered", "block=512", "count=64", "repetitions=2"], {"write", "read", "write_post", "read_post"}),
        (["single", "operation=READ", "size=65536", "repetitions=2"], {"read"}),
        (["loopback", "block=4096", "count=64", "repetitions=2"], {"write"}),
        (["calls", "block=512", "count=64", "repetitions=2"], {"descs_array", "descs_tuples", "make", "initialize"}),
        (["notifications", "seconds=0", "messages=50"], {"round_trip", "one_way"}),
        (["regions", "count=64", "repetitions=2"], {"register", "get_metadata", "load_metadata"}),
        (["views", "count=64", "rounds=3"], {"second_round", "last_round"}),
        (["many_descs", "count=1000", "repetitions=2"], {"prep_tuples", "prep_array", "descs_array", "prep_strided"}),
        (["idle", "seconds=0"], {"share"}),
    ],
)
def test_every_measurement_runs_by_itself(tmp_path, call, names):
    done = run(KV_BENCH, "nixl", "--mib", 4, "--call", *call, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (measured,) = (value for key, value in json.loads(done.stdout).items() if key != "about")
    assert names <= set(measured)
    assert all(seconds >= 0 for values in measured.values() for seconds in values)

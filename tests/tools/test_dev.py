"""./dev explains each of its commands and refuses what it does not know. What the commands do is seen in CI."""

import subprocess
from pathlib import Path

import pytest

DEV = Path(__file__).resolve().parents[2] / "dev"
COMMANDS = ["setup", "build", "run", "test", "asan", "tsan", "chaos", "bench", "fmt", "lint", "python"]


def dev(*arguments):
    return subprocess.run([str(DEV), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    done = dev(command, "--help")
    assert done.returncode == 0
    assert f"./dev {command}" in done.stdout
    assert done.stderr == ""


def test_overview_names_every_command():
    for arguments in ([], ["--help"]):
        done = dev(*arguments)
        assert done.returncode == 0
        listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
        assert listed == COMMANDS


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["tests"], "unknown command 'tests'"),
        (["test", "--fulll"], "unknown option '--fulll'"),
        (["test", "one", "two"], "one FILTER only"),
        (["asan", "one", "two"], "takes one FILTER"),
        (["fmt", "--chek"], "unknown option '--chek'"),
    ],
)
def test_mistakes_are_refused(arguments, complaint):
    done = dev(*arguments)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stdout == ""

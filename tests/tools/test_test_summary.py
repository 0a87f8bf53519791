"""tools/test_summary.py counts what ctest and pytest wrote, and a lost file is a failure."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "test_summary.py"

CTEST = """<?xml version="1.0"?><testsuite name="Linux-c++" tests="4" failures="1" disabled="1" skipped="1">
<testcase name="A.passes" classname="A.passes" time="0.1" status="run"/>
<testcase name="A.fails" classname="A.fails" time="0.1" status="fail"><failure message="Failed"/></testcase>
<testcase name="A.skips" classname="A.skips" time="0" status="notrun"><skipped message="no"/></testcase>
<testcase name="A.off" classname="A.off" time="0" status="disabled"/>
</testsuite>"""

PYTEST = """<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="1" failures="0" skipped="1" tests="3">
<testcase classname="tests.python.test_a" name="test_one" time="0.1"/>
<testcase classname="tests.python.test_a" name="test_two"><skipped message="no device"/></testcase>
<testcase classname="tests.python.test_a" name="test_three"><error message="set-up"/></testcase>
</testsuite></testsuites>"""


def summary(*files):
    command = [sys.executable, str(TOOL), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def write(path, text):
    path.write_text(text)
    return path


def test_results_are_added_up(tmp_path):
    code, lines = summary(write(tmp_path / "ctest.xml", CTEST), write(tmp_path / "pytest.xml", PYTEST))
    assert code == 1
    assert lines == [
        "FAILED A.fails",
        "FAILED tests.python.test_a::test_three",
        "2 passed, 2 failed, 3 skipped",
    ]


def test_success(tmp_path):
    passing = '<testsuite><testcase name="a" status="run"/></testsuite>'
    assert summary(write(tmp_path / "a.xml", passing)) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_missing_or_broken_file_fails(tmp_path):
    code, lines = summary(tmp_path / "none.xml", write(tmp_path / "cut.xml", CTEST[:100]))
    assert code == 1
    assert lines[-1] == "0 passed, 2 failed, 0 skipped"


def test_nothing_ran(tmp_path):
    code, lines = summary(write(tmp_path / "empty.xml", "<testsuite/>"))
    assert code == 1
    assert lines == ["no test ran", "0 passed, 0 failed, 0 skipped"]

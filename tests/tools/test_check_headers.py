"""tools/check_headers.py compiles each header on its own and says which one does not."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_headers.py"


def check(tree, *options):
    command = [sys.executable, str(TOOL), "--root", str(tree), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def write(tree, path, text):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_complete_headers_pass(tmp_path):
    write(tmp_path, "include/a.h", "#pragma once\n#include <string>\nstd::string name();\n")
    write(tmp_path, "src/util/b.h", '#pragma once\n#include "a.h"\n')
    assert check(tmp_path) == (0, "headers: 1 compile alone\n")
    assert check(tmp_path, "--internal") == (0, "headers: 2 compile alone\n")


def test_missing_include_is_named(tmp_path):
    write(tmp_path, "include/a.h", "#pragma once\nstd::string name();\n")
    write(tmp_path, "include/b.h", "#pragma once\n#include <string>\n")
    code, output = check(tmp_path)
    assert code == 1
    assert output.startswith("include/a.h: does not compile alone\n")
    assert "b.h" not in output


def test_missing_guard_is_named(tmp_path):
    write(tmp_path, "include/a.h", "struct A {};\n")
    code, output = check(tmp_path)
    assert code == 1
    assert "include/a.h" in output


def test_public_header_does_not_reach_into_the_source(tmp_path):
    write(tmp_path, "src/util/b.h", "#pragma once\n")
    write(tmp_path, "include/a.h", '#pragma once\n#include "util/b.h"\n')
    assert check(tmp_path)[0] == 1


def test_empty_tree_is_an_error(tmp_path):
    assert check(tmp_path)[0] == 1

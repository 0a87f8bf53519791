"""tools/check_layers.py accepts what the rules allow and names each thing they forbid."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def check(tree):
    done = subprocess.run([sys.executable, str(TOOL), str(tree)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.fixture
def tree(tmp_path):
    """A small tree without violations; `tree(path, text)` adds a file."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return tmp_path

    write("include/nixl_types.h", "#pragma once\n#include <string>\n")
    write("src/util/status.h", '#pragma once\n#include "nixl_types.h"\n')
    write("src/util/options.cc", '#include <cstdlib>\nconst char *home = std::getenv("HOME");\n')
    write("src/wire/serdes.h", '#pragma once\n#include "util/status.h"\n')
    write("src/memory/region.h", '#pragma once\n#include "wire/serdes.h"\n#include "region_impl.h"\n')
    write("src/memory/region_impl.h", "#pragma once\n")
    write("src/engine/engine.h", '#pragma once\n#include "util/status.h"\n')
    write("src/agent/agent.cc", '#include "nixl_types.h"\n#include "memory/region.h"\n#include "engine/engine.h"\n')
    write("src/wire/CMakeLists.txt", "nixl_layer(wire DEPENDS util)\n")
    write("engines/common/files.h", '#pragma once\n#include "util/status.h"\n')
    write("engines/local/engine.h", '#pragma once\n#include "engine/engine.h"\n#include "engines/common/files.h"\n')
    write("engines/builtin.cc", '#include "engines/local/engine.h"\n')
    write("src/util/worker.cc", "std::thread run([] {});\n")
    write("docs/threading.md", "| `src/util/worker.cc` | the worker |\n")
    write("tests/unit/wire/serdes_test.cc", '#include "wire/serdes.h"\n#include "support/temp_dir.h"\n')
    write("python/bindings/module.cc", '#include "nixl_types.h"\n')
    return write


def test_clean_tree_passes(tree):
    assert check(tree("README.md", "")) == (0, "layers: no violations\n")


@pytest.mark.parametrize(
    "path, text, expected",
    [
        ("src/util/a.h", '#include "wire/serdes.h"', "src/util/a.h:1: .*util .layer 0. may not see wire .layer 1."),
        ("src/memory/a.cc", '\n#include "engine/engine.h"', "src/memory/a.cc:2: .*memory .* may not see engine"),
        ("src/engine/a.cc", '#include "engines/local/engine.h"', "the core sees only"),
        ("src/engine/a.cc", '#include "../agent/agent.cc"', "may not see agent"),
        ("src/network/a.cc", "", "src/network is no layer"),
        ("src/agent/a.cc", 'if (name == "UCX")', "names a backend"),
        ("src/wire/a.cc", 'std::getenv("X");', "reads the environment"),
        ("src/wire/a.cc", "/* one */ std::jthread worker_;", "starts a thread"),
        ("src/wire/a.h", '#include "util/worker.h"', "starts a thread"),
        ("src/wire/CMakeLists.txt", "nixl_layer(wire DEPENDS util memory)", "wire. may not depend on memory"),
        ("engines/local/a.cc", '#include "engines/ucx/engine.h"', "never includes another engine"),
        ("engines/local/a.cc", '#include "agent/agent.cc"', "engines see only engine"),
        ("engines/local/a.cc", 'secure_getenv("X");', "reads the environment"),
        ("include/nixl.h", "#include <toml++/toml.h>", "public headers need only"),
        ("include/nixl.h", '#include "util/status.h"', "see only include/"),
        ("tests/unit/wire/a_test.cc", '#include "memory/region.h"', "a test of wire may not see memory"),
        ("tests/unit/wire/a_test.cc", '#include "engines/local/engine.h"', "unit tests use fakes"),
        ("python/bindings/a.cc", '#include "engine/engine.h"', "sees only include/, src/util, src/wire"),
        ("examples/cpp/a.cc", '#include "util/status.h"', "sees only include/$"),
    ],
)
def test_violation_is_named(tree, path, text, expected):
    code, output = check(tree(path, text + "\n"))
    assert code == 1
    assert re.search(expected, output), output
    assert len(output.splitlines()) == 1, output


@pytest.mark.parametrize(
    "path, text",
    [
        ("src/wire/a.cc", '// std::getenv("X"), "UCX", std::thread t;'),
        ("src/wire/a.cc", "std::thread::id self = std::this_thread::get_id();"),
        ("src/agent/a.cc", "// #include <toml.h>"),
        ("tests/unit/agent/a_test.cc", '#include "wire/serdes.h"'),
        ("python/bindings/a.cc", '#include "wire/serdes.h"'),
    ],
)
def test_harmless_text_passes(tree, path, text):
    code, output = check(tree(path, text + "\n"))
    assert code == 0, output

"""`pip install .`: what the wheel holds, and that a user without root rights can work with it."""

import json
import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(nixl VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"nixl_open-{VERSION}.dist-info/METADATA").decode())


def test_contents(wheel):
    held = names(wheel)
    headers = {f"nixl/include/{path.relative_to(ROOT / 'include')}" for path in (ROOT / "include").rglob("*.h")}
    sources = {f"nixl/{path.relative_to(ROOT / 'python/nixl')}" for path in (ROOT / "python/nixl").rglob("*.py")}
    assert headers <= held
    assert sources <= held
    for name in (
        "nixl/py.typed",
        "nixl/_bindings.pyi",
        "nixl/lib/libnixl.so",
        "nixl/lib/cmake/nixl/nixlConfig.cmake",
        "nixl/lib/pkgconfig/nixl.pc",
        f"nixl_open-{VERSION}.dist-info/licenses/LICENSE",
    ):
        assert name in held, name
    assert any(re.fullmatch(r"nixl/_bindings\..*so", name) for name in held)


def test_nothing_else_is_installed(wheel):
    assert {name.split("/")[0] for name in names(wheel)} == {"nixl", f"nixl_open-{VERSION}.dist-info"}
    assert not [name for name in names(wheel) if name.endswith((".a", ".cc", ".pyc"))]


def test_metadata(wheel):
    fields = metadata(wheel)
    assert fields["Name"] == "nixl-open"
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.10"
    needed = [line for line in fields.get_all("Requires-Dist", []) if "extra" not in line]
    assert [re.match(r"[\w-]+", line).group() for line in needed] == ["libucx-cu13"]
    assert {"numpy", "torch", "cu12", "cu13"} <= set(fields.get_all("Provides-Extra"))


def test_knows_no_place_of_the_machine_that_built_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("nixl/lib/libnixl.so")
    assert b"/libucx/lib" in library
    assert sys.prefix.encode() not in library


def test_imports_without_numpy_torch_or_root(installation):
    program = (
        "import json, os, sys, importlib.metadata, nixl, nixl._api, nixl._bindings, nixl.logging; "
        "print(json.dumps([os.getuid(), importlib.metadata.version('nixl-open'), nixl.__file__, "
        "[name for name in ('numpy', 'torch') if name in sys.modules]]))"
    )
    uid, version, file, eager = json.loads(installation.evaluate(program).splitlines()[-1])
    assert uid != 0
    assert version == VERSION
    assert Path(file).is_relative_to(installation.home)
    assert eager == []


def test_agent_works(installation):
    program = (
        "import nixl._api as api; agent = api.nixl_agent('a', api.nixl_agent_config(backends=['LOCAL'])); "
        "print('LOCAL' in agent.get_plugin_list(), len(agent.get_agent_metadata()) > 0)"
    )
    assert installation.evaluate(program).splitlines()[-1] == "True True"


def test_ucx_comes_with_it(installation):
    program = (
        "import nixl._api as api; agent = api.nixl_agent('a'); "
        "print(sorted(agent.backends), 'libucx' in __import__('sys').modules)"
    )
    assert installation.evaluate(program).splitlines()[-1] == "['UCX'] False"


def test_console_command(installation):
    output = installation.run(installation.home / "venv/bin/nixl", "--help")
    assert "demo" in output

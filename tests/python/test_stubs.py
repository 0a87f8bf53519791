"""The type stubs say what the extension modules have."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "make_stubs.py"


@pytest.mark.parametrize("module", ["nixl._bindings", "nixl._utils"])
def test_stubs_are_those_of_the_modules(module):
    spec = importlib.util.spec_from_file_location("make_stubs", TOOL)
    make_stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_stubs)
    text = make_stubs.StubWriter(importlib.import_module(module)).text()
    compile(text, module, "exec")
    path = make_stubs.PACKAGE / (module.rpartition(".")[2] + ".pyi")
    assert path.read_text(encoding="utf-8") == text, "run: ./dev python tools/make_stubs.py"

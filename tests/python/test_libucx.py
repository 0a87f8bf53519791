"""The library is told where the Python package libucx lies."""

import sys

import pytest
from nixl import _libucx


@pytest.fixture
def announced(monkeypatch):
    folders = []
    monkeypatch.setattr(_libucx._bindings, "add_libucx", folders.append)
    monkeypatch.delitem(sys.modules, "libucx", raising=False)
    return folders


def test_the_package_is_found_and_not_imported(tmp_path, monkeypatch, announced):
    package = tmp_path / "libucx"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    _libucx.announce()
    assert announced == [str(package)]
    assert "libucx" not in sys.modules


def test_a_module_of_that_name_is_no_package(tmp_path, monkeypatch, announced):
    (tmp_path / "libucx.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    _libucx.announce()
    assert announced == []


def test_without_the_package_nothing_is_said(monkeypatch, announced):
    monkeypatch.setattr(sys, "path", [])
    _libucx.announce()
    assert announced == []

"""libnixl.so shows the interface of include/ and nothing of its inside."""

import re

import pytest

from .conftest import run

# Names of the interface as they stand in a demangled symbol, behind what the compiler makes of classes.
PUBLIC = re.compile(
    r"""(?x)
    (?:vtable\ for\ |typeinfo\ for\ |typeinfo\ name\ for\ |VTT\ for\ |guard\ variable\ for\ )?
    (?: nixl[A-Z]\w*          # classes, nixlEnumStrings, functions of nixl_ext.h
      | nixl_\w+              # C functions and constants
      | nixlTime\b
      | default_(?:partial_)?metadata_label
    )\b""",
)
OPERATOR = re.compile(r"(?:bool |std::\w+ )?operator\W+.*\bnixl[A-Z]\w*")
VERSION_NODE = "NIXL_1"


@pytest.fixture(scope="module")
def symbols(prefix):
    (library,) = prefix.rglob("libnixl.so")
    lines = run(["nm", "-DC", "--defined-only", library]).splitlines()
    return [re.sub(r"\[abi:\w+\]|@+NIXL_1$", "", line.split(maxsplit=2)[2]) for line in lines]


def test_only_the_interface_is_visible(symbols):
    surplus = [name for name in symbols if name != VERSION_NODE and not PUBLIC.match(name) and not OPERATOR.match(name)]
    assert surplus == []


@pytest.mark.parametrize(
    "name",
    [
        "nixl_version",
        "nixl_last_error",
        "nixl_null_agent",
        "default_metadata_label",
        "nixlAgent::createXferReq(",
        "nixlDescList<nixlBasicDesc>::print() const",
        "nixlDescList<nixlBlobDesc>::serialize(",
        "nixlSerDes::exportStr() const",
        "nixlEnumStrings::statusStr",
    ],
)
def test_interface_is_there(symbols, name):
    assert any(symbol.startswith(name) for symbol in symbols)


def test_needs_only_the_platform(prefix):
    (library,) = prefix.rglob("libnixl.so")
    needed = re.findall(r"NEEDED\s+(\S+)", run(["objdump", "-p", library]))
    assert set(needed) <= {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"} | {
        "ld-linux-aarch64.so.1"
    }

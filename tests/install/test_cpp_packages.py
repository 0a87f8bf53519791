"""C++ programs find the library through CMake and pkg-config, in an installed prefix and inside the wheel."""

import os
import shutil
from pathlib import Path

import pytest

from .conftest import run

HERE = Path(__file__).resolve().parent


@pytest.fixture(params=["prefix", "wheel"])
def place(request, tmp_path):
    """The folder that holds lib/ and include/, moved after installation: packages must be relocatable."""
    if request.param == "prefix":
        source = request.getfixturevalue("prefix")
    else:
        installation = request.getfixturevalue("installation")
        source = Path(installation.evaluate("import nixl, os; print(os.path.dirname(nixl.__file__))").splitlines()[-1])
    return shutil.copytree(source, tmp_path / "moved place", symlinks=True)


def check(program, libraries):
    output = run([program], env={"LD_LIBRARY_PATH": str(libraries), "NIXL_LOG_LEVEL": "ERROR"})
    assert output.startswith("nixl 1.") and output.endswith(" moved 4096 bytes to receiver\n")


def libdir(place):
    (library,) = (path for path in place.rglob("libnixl.so"))
    return library.parent


def test_cmake(place, tmp_path):
    build = tmp_path / "build"
    run(["cmake", "-S", HERE / "cmake_consumer", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={place}"])
    run(["cmake", "--build", build])
    check(build / "consumer", libdir(place))


def test_pkg_config(place, tmp_path):
    environment = {"PKG_CONFIG_PATH": str(libdir(place) / "pkgconfig")}
    version = run(["pkg-config", "--modversion", "nixl"], env=environment).strip()
    assert version.startswith("1.5.")
    flags = run(["pkg-config", "--cflags", "--libs", "nixl"], env=environment)
    program = tmp_path / "consumer"
    # The shell splits what pkg-config quotes, as it does in a makefile.
    compiler = os.environ.get("CXX", "g++")
    run(["sh", "-c", f'{compiler} -std=c++20 "$0" -o "$1" {flags}', HERE / "consumer.cc", program])
    check(program, libdir(place))


def test_plugin_folder_of_pkg_config(prefix):
    environment = {"PKG_CONFIG_PATH": str(libdir(prefix) / "pkgconfig")}
    folder = Path(run(["pkg-config", "--variable=plugindir", "nixl"], env=environment).strip())
    assert folder.resolve() == (libdir(prefix) / "plugins").resolve()
    assert folder.is_dir()

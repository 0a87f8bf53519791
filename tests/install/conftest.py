"""What is installed, made once: a prefix as packagers see it, and a wheel in an environment of its own."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_DIR_UNDER_TEST", ROOT / "build"))
NOBODY = 65534


def run(command, **options):
    """Runs a command without the surrounding PYTHONPATH; its output, or a failure that shows all of it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.update(options.pop("env", {}))
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=environment, **options
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def without_root(command, **options):
    """Runs a command as a user who owns nothing but `home`."""
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", *command]
    return run(command, **options)


class Installation:
    """A wheel installed by an ordinary user."""

    def __init__(self, wheel, home):
        self.wheel = wheel
        self.home = home
        self.python = home / "venv" / "bin" / "python"
        self.environment = {"HOME": str(home), "TMPDIR": str(home)}

    def run(self, *command):
        return without_root(command, env=self.environment, cwd=self.home)

    def evaluate(self, program):
        return self.run(self.python, "-c", program).strip()


def provide_ucx(installation):
    """What pip would fetch from an index: the wheel of UCX, with the parts that run."""
    source = Path(importlib.util.find_spec("libucx").submodule_search_locations[0])
    (target,) = (installation.home / "venv" / "lib").glob("python*/site-packages")
    unused = shutil.ignore_patterns("*.a", "*.la", "include", "bin", "share", "cmake", "libucx_perftest*")
    for folder in (source, *source.parent.glob("libucx_cu*.dist-info"), *source.parent.glob("libucx_cu*.libs")):
        copy = shutil.copytree(folder, target / folder.name, ignore=unused)
        if os.geteuid() == 0:
            run(["chown", "-R", f"{NOBODY}:{NOBODY}", copy])


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run(["cmake", "--install", BUILD, "--prefix", folder])
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    # A lasting build folder: the second run compiles what changed.
    run([*pip, f"--config-settings=build-dir={BUILD / 'wheel'}", f"--wheel-dir={folder}", ROOT])
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="session")
def installation(wheel):
    # Outside of pytest's own folders, which are closed to other users.
    home = Path(tempfile.mkdtemp(prefix="nixl-install-"))
    try:
        home.chmod(home.stat().st_mode | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        local = Path(shutil.copy(wheel, home))
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        done = Installation(local, home)
        done.run(Path(sys.base_prefix) / "bin" / "python3", "-m", "venv", home / "venv")
        provide_ucx(done)
        done.run(done.python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", local)
        yield done
    finally:
        shutil.rmtree(home)

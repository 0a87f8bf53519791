"""Running `nixl demo` as a user does, for test_demo_*.py."""

import json
import os
import subprocess
import sys
import time

import nixl

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(nixl.__file__)))
ENOUGH_S = 120
LOCAL = ("--backend", "LOCAL")
TCP = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
# Moves the same file until something ends it.
FOR_EVER = ("--repeat", "1000000")


def environment():
    """What a user has; variables for tests are unknown settings to the library, which it would report."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NIXL_")}
    env["PYTHONPATH"] = os.pathsep.join([PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
    return env


def with_hook(folder, text, name="hook"):
    """environment() in which every Python process of the demo runs `text` first."""
    (folder / name).mkdir()
    (folder / name / "sitecustomize.py").write_text(text)
    env = environment()
    env["PYTHONPATH"] = f"{folder / name}{os.pathsep}{env['PYTHONPATH']}"
    return env


def command(*arguments):
    return [sys.executable, "-m", "nixl.cli", "demo", *map(str, arguments)]


def demo(*arguments, **options):
    options.setdefault("env", environment())
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=ENOUGH_S, **options)


def result(*arguments, **options):
    done = demo(*arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def children(pid):
    """Process ids of the demo's two processes, by role."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if parent == pid:
            found.update({role: int(name) for role in ("prefill", "decode") if role.encode() in words})
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def wait_for(condition):
    end = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


SPOIL = """
import nixl.cli.demo.decode as decode
original = decode.Decode.{method}
def spoiled(self, *args, **kwargs):
    result = original(self, *args, **kwargs)
    self.{area}.block(self.order[3])[7] ^= 1
    self.{area}.block(self.order[5])[0] ^= 255
    return result
decode.Decode.{method} = spoiled
"""


class Listener:
    """A running `nixl demo --listen`."""

    def __init__(self, where="0", *arguments, env=None, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, *command("--listen", where, *arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=env or environment(), start_new_session=True,
        )  # fmt: skip
        first = self.process.stdout.readline()
        assert first.startswith("listening on "), self.process.stderr.read()
        self.address = first.removeprefix("listening on ").strip()
        self.port = int(self.address.rpartition(":")[2])

    def ended(self, code):
        """What it printed, once it ended as it should."""
        out, errors = self.process.communicate(timeout=ENOUGH_S)
        assert self.process.returncode == code, errors
        assert "Traceback" not in errors, errors
        return out, errors


def complaint(done, code):
    """The one line that says why a command failed."""
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("nixl demo: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def last_line(process, code):
    _, errors = process.communicate(timeout=ENOUGH_S)
    assert process.returncode == code, errors
    assert "Traceback" not in errors, errors
    return errors.splitlines()[-1]

"""`nixl demo` as a user runs it: two real processes, real files, and what can go wrong."""

import hashlib
import json
import os
import pty
import select
import signal
import subprocess
import sys

import pytest
from demo_runs import (
    ENOUGH_S,
    FOR_EVER,
    SPOIL,
    alive,
    children,
    command,
    demo,
    environment,
    result,
    wait_for,
    with_hook,
)


@pytest.fixture
def running(tmp_path):
    """A demo in the middle of its WRITEs, and its two processes."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3_000_000))
    arguments = command(path, *FOR_EVER, "--timeout", "4", "--out", tmp_path / "out")
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )
    seen = []
    for line in process.stderr:
        seen.append(line)
        if "prefill WRITEs" in line:  # the plain line that comes every two seconds
            break
    pids = children(process.pid)
    assert set(pids) == {"prefill", "decode"}, seen
    yield process, pids
    for pid in (process.pid, *pids.values()):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def assert_ends(process, pids, code, words, tmp_path):
    _, errors = process.communicate(timeout=ENOUGH_S)
    assert process.returncode == code
    complaint = [line for line in errors.splitlines() if line.startswith("nixl demo: ")]
    assert len(complaint) == 1 and all(word in complaint[0] for word in words), errors
    assert "Traceback" not in errors
    wait_for(lambda: not any(map(alive, pids.values())))
    assert sorted(os.listdir(tmp_path)) == ["file"]


# ---- What it does ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 63, 16383, 16384, 16385, 2 * 16384, 100_001, 8192 * 16384 + 77])
def test_any_size_arrives_unchanged(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    told = result(tmp_path / "file", "--out", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content
    assert told["verified"] is True
    assert told["sha256"] == hashlib.sha256(content).hexdigest()
    assert told["file_bytes"] == size
    assert told["block_count"] == -(-size // 16384)
    assert told["moved_bytes"] == told["block_count"] * 16384
    assert told["request_count"] == -(-told["block_count"] // 8192)


@pytest.mark.parametrize(
    "block, size", [("64", 10_000), ("100", 10_000), ("4K", 1_000_000), ("1M", 5_000_000), ("64M", 5)]
)
def test_any_block_size(tmp_path, block, size):
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    result(tmp_path / "file", "--block-size", block, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content


def test_scattered_blocks_cannot_be_merged_and_ordered_ones_are(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(1_000_000))
    scattered = result(tmp_path / "file", "--block-size", "4K", "--seed", "5")
    merged = result(tmp_path / "file", "--block-size", "4K", "--merge")
    for operation in ("write_path", "read_path"):
        assert scattered[operation]["blocks_after_merging"] == scattered["block_count"] == 245
        assert merged[operation]["blocks_after_merging"] == 1


@pytest.mark.parametrize(
    "name", [b"with blank", b"-dash", b"new\nline", b"bytes \xff\xfe", "größe".encode(), b"x" * 255]
)
def test_any_name(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "wb") as file:
        file.write(b"content")
    done = subprocess.run(
        [*map(os.fsencode, command("--")), path], capture_output=True, timeout=ENOUGH_S, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert b"verified" in done.stdout


def test_name_that_begins_with_a_dash(tmp_path):
    (tmp_path / "-f").write_bytes(b"content")
    assert demo("--", "-f", cwd=tmp_path).returncode == 0


def test_files_of_the_working_directory_do_not_stand_in_for_modules(tmp_path):
    for name in ("random.py", "numpy.py", "ctypes.py", "nixl.py"):
        (tmp_path / name).write_text("raise SystemExit('imported the wrong module')")
    (tmp_path / "file").write_bytes(b"content")
    script = "import sys; from nixl.cli import main; sys.exit(main(['demo', 'file']))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.remove(''); {script}"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=ENOUGH_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_needs_no_numpy(tmp_path):
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "numpy.py").write_text("raise ImportError('hidden by the test')")
    (tmp_path / "file").write_bytes(os.urandom(1_000_001))
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path / 'hide'}{os.pathsep}{env['PYTHONPATH']}"
    result(tmp_path / "file", "--out", tmp_path / "out", env=env)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "file").read_bytes()


def test_table_says_everything(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(1_000_000))
    done = demo(tmp_path / "file", "--out", tmp_path / "out", "--repeat", "3")
    assert done.returncode == 0, done.stderr
    rows = {line[:13].strip(): line[13:].strip() for line in done.stdout.splitlines()}
    assert str(tmp_path / "file") in done.stdout
    assert rows["path"].startswith("LOCAL, ") and rows["why"]
    assert "62 of 16 KiB" in rows["blocks"]
    assert "1,015,808" in rows["bytes"] and "medians of 3" in done.stdout
    for operation in ("WRITE", "READ"):
        assert "GB/s" in rows[operation] and "ns per block" in rows[operation]
    assert "p50" in rows["notification"] and "p99" in rows["notification"]
    assert hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest() in rows["verified"]
    assert rows["saved"] == str(tmp_path / "out") or str(tmp_path / "out") in done.stdout


def test_json_is_one_object_and_nothing_else(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    done = demo(tmp_path / "file", "--json")
    assert done.stdout.count("\n") == 1
    told = json.loads(done.stdout)
    for key in ("write_GBps", "read_GBps", "write_ns_per_block", "read_ns_per_block", "notification_rtt_p50_us",
                "notification_rtt_p99_us"):  # fmt: skip
        assert told[key] > 0, key
    assert told["write_path"]["reason"]
    assert done.stderr == ""


def test_without_a_file_it_moves_files_of_the_machine():
    told = result()
    assert told["file_bytes"] >= 100_000_000
    assert told["verified"] is True


def test_bar_on_a_terminal(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(1_000_000))
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        command(tmp_path / "file"), stderr=terminal, stdout=subprocess.DEVNULL, env=environment()
    )
    os.close(terminal)
    shown = b""
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        if select.select([master], [], [], 0.1)[0]:
            try:
                shown += os.read(master, 65536)
            except OSError:
                break
    os.close(master)
    assert process.wait(ENOUGH_S) == 0
    assert b"prefill WRITEs [##############################] 100%" in shown
    assert b"decode READs" in shown and b"GB/s" in shown


def test_output_to_a_closed_pipe_is_no_traceback(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    process = subprocess.Popen(
        command(tmp_path / "file"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.wait(ENOUGH_S)
    assert b"Traceback" not in errors and b"BrokenPipe" not in errors


@pytest.mark.parametrize(
    ("redirection", "code", "lines"),
    [
        (">&-", 0, 0),
        ("2>&-", 0, 0),
        ("<&- >&- 2>&-", 0, 0),
        ("2>/dev/full", 0, 0),
        (">/dev/full", 1, 1),
        (">/dev/full 2>/dev/full", 1, 0),
    ],
)
@pytest.mark.parametrize("arguments", [("file", "--out", "out"), ("--help",)])
def test_streams_that_are_closed_or_full(tmp_path, arguments, redirection, code, lines):
    (tmp_path / "file").write_bytes(b"content")
    done = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "bash", *command(*arguments)], cwd=tmp_path, env=environment(),
        capture_output=True, text=True, timeout=ENOUGH_S,
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert done.returncode == code, done.stderr
    assert done.stderr.count("nixl demo: cannot write the result: No space left on device\n") == lines
    if "--out" in arguments:
        assert (tmp_path / "out").read_bytes() == b"content"


def test_stdout_has_only_json_whatever_is_logged(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(
        "import nixl._foreign as foreign\n"
        "foreign.other_owner = lambda packages: 'another'\n"
        "foreign.warn_of_other_owner()\n"
        "import nixl.cli.demo as demo\n"
        "original = demo.find_source\n"
        "demo.find_source = lambda path: (foreign.get_logger('x').warning('said later'), original(path))[1]\n"
    )
    path = f"{tmp_path / 'hook'}{os.pathsep}{environment()['PYTHONPATH']}"
    done = demo(tmp_path / "file", "--json", env={**environment(), "PYTHONPATH": path, "NIXL_LOG_LEVEL": "LOUD"})
    assert json.loads(done.stdout)["verified"] is True
    assert "pip uninstall another" in done.stderr and "'LOUD'" in done.stderr and "said later" in done.stderr


# ---- What it refuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["{tmp}/missing"], "No such file"),
        (["{tmp}"], "is a directory"),
        (["{tmp}/empty"], "is empty"),
        (["{tmp}/sparse"], "too little memory"),
        (["{tmp}/file", "--backend", "NO_SUCH_ENGINE"], "there is no backend 'NO_SUCH_ENGINE'; there is"),
        (["{tmp}/file", "--backend", ""], "there is no backend ''"),
        (["{tmp}/file", "--out", "{tmp}/missing/out"], "cannot write"),
        (["{tmp}/file", "--out", "{tmp}"], "cannot write"),
        (["{tmp}/file", "--block-size", "1"], "--block-size"),
        (["/sys/kernel/mm/transparent_hugepage/enabled"], "of 4,096 bytes"),
        (["{tmp}/file", "--out", "/dev/stdout"], "printed there"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_unusable_input_is_one_line_and_exit_code_2(tmp_path, arguments, words, form):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "empty").touch()
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(10**13)
    before = sorted(os.listdir(tmp_path))
    done = demo(*[argument.format(tmp=tmp_path) for argument in arguments], *form)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("nixl demo:")]
    assert len(lines) == 1 and words in lines[0], done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("name", "value"), [("NIXL_CONFIG_FILE", "/nope"), ("NIXL_LOCAL", "maybe")])
def test_unusable_setting_is_one_line_and_exit_code_2(tmp_path, name, value):
    (tmp_path / "file").write_bytes(b"content")
    done = demo(tmp_path / "file", env={**environment(), name: value})
    lines = [line for line in done.stderr.splitlines() if line.startswith("nixl demo:")]
    assert (done.returncode, len(lines)) == (2, 1) and value in lines[0], done.stderr
    assert "Traceback" not in done.stderr


def test_too_little_memory_in_a_process_is_one_line(tmp_path):
    path = tmp_path / "file"
    with open(path, "wb") as file:
        file.truncate(800_000_000)
    script = 'ulimit -v 1300000; exec "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *command(path)], capture_output=True, text=True, env=environment(),
        timeout=ENOUGH_S,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("nixl demo: too little memory") == 1


# ---- What goes wrong on the way --------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_killed_process_is_named_and_nothing_is_left(running, tmp_path, role):
    process, pids = running
    os.kill(pids[role], signal.SIGKILL)
    assert_ends(process, pids, 1, [role, "SIGKILL"], tmp_path)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_hanging_process_is_noticed(running, tmp_path, role):
    process, pids = running
    os.kill(pids[role], signal.SIGSTOP)
    assert_ends(process, pids, 1, ["no progress for 4 s", role], tmp_path)


def test_interrupt_ends_both_processes(running, tmp_path):
    process, pids = running
    os.killpg(process.pid, signal.SIGINT)
    assert_ends(process, pids, 130, ["interrupted"], tmp_path)


def test_termination_ends_both_processes(running, tmp_path):
    process, pids = running
    process.terminate()
    process.communicate(timeout=ENOUGH_S)
    assert process.returncode == 128 + signal.SIGTERM
    wait_for(lambda: not any(map(alive, pids.values())))
    assert os.listdir(tmp_path) == ["file"]


def test_killed_supervisor_takes_both_processes_along(running):
    process, pids = running
    process.kill()
    wait_for(lambda: not any(map(alive, pids.values())))


@pytest.mark.parametrize(
    "method, area, operation", [("await_transfers", "written", "WRITE"), ("read_back", "read", "READ")]
)
def test_wrong_byte_is_found_and_named(tmp_path, method, area, operation):
    (tmp_path / "file").write_bytes(os.urandom(1_000_000))
    env = with_hook(tmp_path, SPOIL.format(method=method, area=area))
    where = f"{operation}: 2 of 62 blocks differ, first at byte {3 * 16384 + 7} of the file (block 3, byte 7 of it)"
    done = demo(tmp_path / "file", "--out", tmp_path / "out", env=env)
    assert done.returncode == 1
    assert f"nixl demo: verification failed: {where}" in done.stderr
    assert "NO: " in done.stdout
    assert not (tmp_path / "out").exists()
    done = demo(tmp_path / "file", "--json", env=env)
    told = json.loads(done.stdout)
    assert (done.returncode, told["verified"], told["difference"]) == (1, False, where)

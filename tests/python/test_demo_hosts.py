"""`nixl demo --listen` and `--connect`: two commands, of one host or of two, and what either bears of the other."""

import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import nixl
import pytest
from demo_runs import (
    ENOUGH_S,
    FOR_EVER,
    LOCAL,
    SPOIL,
    TCP,
    alive,
    children,
    command,
    complaint,
    demo,
    environment,
    last_line,
    result,
    wait_for,
    with_hook,
)
from nixl.cli import build_parser
from nixl.cli.demo.link import FRAME_LIMIT, Link

ROOT = Path(__file__).resolve().parents[2]


# ---- What it does ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["0", "127.0.0.1:0", "localhost:0", "[::1]:0", "0.0.0.0:0", "[::]:0"])
def test_file_arrives_at_the_side_that_listens(tmp_path, file, listener, where):
    there = listener(where, "--out", tmp_path / "out")
    bound = where.rpartition(":")[0] or "127.0.0.1"
    assert there.address.startswith(f"{bound}:") or bound == "localhost"
    reached = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(bound, bound)
    told = result(file, "--connect", f"{reached}:{there.port}", *LOCAL, "--repeat", "2")
    out, _ = there.ended(0)
    content = file.read_bytes()
    assert (tmp_path / "out").read_bytes() == content
    digest = hashlib.sha256(content).hexdigest()
    assert told["verified"] is True and told["sha256"] == digest
    assert told["decode_at"] == f"{reached}:{there.port}"
    assert told["write_path"]["backend"] == told["read_path"]["backend"] == "LOCAL"
    assert "1,000,000 bytes" in out and f"yes, SHA-256 {digest}" in out and str(tmp_path / "out") in out
    assert sorted(os.listdir(tmp_path)) == ["file", "out"]


def test_table_names_the_other_side_and_the_path(file, listener):
    there = listener()
    done = demo(file, "--connect", there.address, *LOCAL)
    assert done.returncode == 0, done.stderr
    rows = {line[:13].strip(): line[13:].strip() for line in done.stdout.splitlines()}
    assert rows["decode"] == f"at {there.address}"
    assert rows["path"].startswith("LOCAL, ") and rows["why"]
    there.ended(0)


def test_listening_side_serves_one_run(file, listener):
    there = listener()
    result(file, "--connect", there.address, *LOCAL)
    there.ended(0)
    assert "nobody listens" in complaint(demo(file, "--connect", there.address, *LOCAL), 1)


def test_many_small_blocks_travel_in_several_messages(file, listener):
    there = listener()
    told = result(file, "--connect", there.address, *LOCAL, "--block-size", "64", "--seed", "7")
    assert told["block_count"] == 15625 and told["write_path"]["blocks_after_merging"] == 15625
    there.ended(0)


# ---- What it refuses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--listen", "0", "--connect", "a:1"], "not allowed with"),
        (["--listen", "65536"], "port from 0 to 65535"),
        (["--listen", "host"], "port"),
        (["--listen", ":5"], "0.0.0.0"),
        (["--listen", "::1:5"], "[::1]:5005"),
        (["--listen", "0", "FILE"], "FILE is for the side that connects"),
        (["--listen", "0", "--json"], "--json is for the side that connects"),
        (["--listen", "0", "--block-size", "4K"], "--block-size is for the side that connects"),
        (["--connect", "host"], "not HOST:PORT"),
        (["--connect", "host:0"], "port from 1"),
        (["--connect", "host:+5"], "port from 1"),
        (["--connect", ":5"], "not HOST:PORT"),
        (["--connect", "::1:5"], "[::1]:5005"),
        (["--connect", "[]:5"], "names no host"),
        (["--connect", "a:5", "--out", "x"], "--out is for the side that listens"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(arguments, words):
    assert words in complaint(demo(*arguments), 2)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_where_nobody_listens_the_address_is_named(file, host):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        address = f"{host}:{taken.getsockname()[1]}"
        said = complaint(demo(file, "--connect", address, *LOCAL), 1)
    assert address in said and "nobody listens" in said


def test_name_that_does_not_exist_is_named(file):
    assert "no-such-host.invalid:5" in complaint(demo(file, "--connect", "no-such-host.invalid:5", *LOCAL), 1)


def test_address_that_cannot_be_listened_on_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: " in complaint(demo("--listen", port), 2)
    assert "cannot listen on 192.0.2.1:5: " in complaint(demo("--listen", "192.0.2.1:5"), 2)


def test_unusable_out_is_refused_before_anybody_waits(tmp_path):
    assert "cannot write" in complaint(demo("--listen", "0", "--out", tmp_path / "missing" / "out"), 2)


def test_side_that_listens_chooses_what_it_serves(file, listener):
    there = listener("0", "--backend", "OTHER")
    said = complaint(demo(file, "--connect", there.address, *LOCAL), 1)
    assert there.address in said and "--backend LOCAL connects and --backend OTHER listens" in said
    there.process.send_signal(signal.SIGINT)
    _, errors = there.ended(130)
    assert "--backend LOCAL connects" in errors and errors.splitlines()[-1] == "nixl demo: interrupted"


def test_versions_that_differ_are_both_named_on_both_sides(tmp_path, file, listener):
    there = listener()
    env = with_hook(tmp_path, "import nixl.cli.demo.member as member\nmember.__version__ = '9.9.9'\n")
    said = complaint(demo(file, "--connect", there.address, *LOCAL, env=env), 1)
    assert there.address in said and "nixl 9.9.9 connects" in said and f"nixl {nixl.__version__} listens" in said
    result(file, "--connect", there.address, *LOCAL)  # it still waits for one that fits
    _, errors = there.ended(0)
    assert "nixl 9.9.9 connects" in errors


def test_too_little_memory_there_is_told_here(tmp_path, file, listener):
    hook = "import nixl.cli.demo.memory as memory\nmemory.available = lambda: 1000\n"
    there = listener(env=with_hook(tmp_path, hook))
    said = complaint(demo(file, "--connect", there.address, *LOCAL), 2)
    assert f"at {there.address}: too little memory: " in said and "decode's two areas" in said and "prefill" not in said
    _, errors = there.ended(1)
    assert "too little memory" in errors


def test_unknown_backend_there_is_told_here(tmp_path, file, listener):
    there = listener()
    assert "there is no backend 'NONE'; there is" in complaint(
        demo(file, "--connect", there.address, "--backend", "NONE"), 2
    )
    there.ended(1)


LIE = """
import os, sys
if any(word in ("prefill", "decode") for word in sys.argv):
    os.write(2, f"switch: {os.environ.get('NIXL_LOCAL')}\\n".encode())
    os.environ["NIXL_LOCAL"] = "on"
import nixl.cli.demo.participant as participant
start = participant.Participant.start
def start_another(self, backend):
    start(self, "LOCAL")
    self.backend = backend
participant.Participant.start = start_another
"""


@pytest.mark.parametrize("form", ["one command", "two commands"])
def test_transfer_by_another_path_than_asked_for_is_a_failure(tmp_path, file, listener, form):
    """What would happen if LOCAL carried transfers although it was switched off."""
    env = with_hook(tmp_path, LIE)
    if form == "one command":
        done = demo(file, "--backend", "UCX", env=env)
        assert done.stderr.count("switch: off\n") == 2
    else:
        there = listener(env=env)
        done = demo(file, "--connect", there.address, env=env)
        assert done.stderr.count("switch: off\n") == 1
        _, errors = there.ended(1)
        assert "not by UCX" in errors and errors.count("switch: off\n") == 1
    said = complaint(done, 1)
    assert re.search(r"goes by LOCAL \(\w+\), not by UCX", said)


def test_local_is_not_switched_off_where_it_is_asked_for(tmp_path, file):
    hook = "import os\nos.write(2, f'switch: {os.environ.get(\"NIXL_LOCAL\")}\\n'.encode())\n"
    done = demo(file, env=with_hook(tmp_path, hook))
    assert done.returncode == 0 and "switch: off" not in done.stderr and "switch: None" in done.stderr


def test_wrong_byte_is_found_between_two_commands(tmp_path, file, listener):
    env = with_hook(tmp_path, SPOIL.format(method="await_transfers", area="written"))
    there = listener("0", "--out", tmp_path / "out", env=env)
    done = demo(file, "--connect", there.address, *LOCAL)
    where = f"WRITE: 2 of 62 blocks differ, first at byte {3 * 16384 + 7} of the file (block 3, byte 7 of it)"
    assert done.returncode == 1 and f"nixl demo: verification failed: {where}" in done.stderr
    _, errors = there.ended(1)
    assert where in errors
    assert sorted(os.listdir(tmp_path)) == ["file", "hook"]


# ---- What goes wrong on the way --------------------------------------------------------------------------


@pytest.fixture(params=["LOCAL", "UCX"])
def running(request, tmp_path, file, listener):
    """Both commands in the middle of the WRITEs: (listening, connecting, process id of decode, of prefill)."""
    env = {**environment(), **TCP}
    there = listener("0", "--timeout", "4", "--out", tmp_path / "out", env=env)
    here = subprocess.Popen(
        command(file, "--connect", there.address, "--backend", request.param, *FOR_EVER, "--timeout", "4"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True,
    )  # fmt: skip
    for line in here.stderr:
        if "prefill WRITEs" in line:
            break
    decode, prefill = children(there.process.pid)["decode"], children(here.pid)["prefill"]
    yield there, here, decode, prefill
    for pid in (decode, prefill, here.pid):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    here.communicate()


def assert_nothing_is_left(tmp_path, *pids):
    wait_for(lambda: not any(map(alive, pids)))
    assert sorted(os.listdir(tmp_path)) == ["file"]


@pytest.mark.parametrize("victim", ["decode", "prefill"])
def test_killed_process_is_named_on_both_sides(running, tmp_path, victim):
    there, here, decode, prefill = running
    os.kill({"decode": decode, "prefill": prefill}[victim], signal.SIGKILL)
    for process in (here, there.process):
        said = last_line(process, 1)
        assert f"{victim} was killed by SIGKILL" in said
        assert there.address in said or process is there.process or victim == "prefill"
    assert_nothing_is_left(tmp_path, decode, prefill)


@pytest.mark.parametrize("victim", ["there", "here"])
def test_other_command_that_is_killed_ends_both(running, tmp_path, victim):
    there, here, decode, prefill = running
    if victim == "there":
        there.process.kill()
        said = last_line(here, 1)
        assert "decode at" in said and there.address in said and "broke off" in said
        there.process.wait()
    else:
        here.kill()
        assert "broke off" in last_line(there.process, 1)
        assert_nothing_is_left(tmp_path, decode, prefill)
    wait_for(lambda: not any(map(alive, (decode, prefill))))


@pytest.mark.parametrize("victim", ["there", "here", "decode"])
def test_silent_side_is_noticed(running, victim):
    there, here, decode, prefill = running
    os.kill({"there": there.process.pid, "here": here.pid, "decode": decode}[victim], signal.SIGSTOP)
    if victim != "here":
        assert "no progress for 4 s" in last_line(here, 1)
    if victim == "here":
        assert "nothing was heard" in last_line(there.process, 1)
    elif victim == "decode":
        assert "no progress for 4 s" in last_line(there.process, 1)


@pytest.mark.parametrize("victim", ["there", "here"])
def test_interrupt_is_told_to_the_other_side(running, tmp_path, victim):
    there, here, decode, prefill = running
    first, second = (there.process, here) if victim == "there" else (here, there.process)
    os.killpg(first.pid, signal.SIGINT)
    assert last_line(first, 130) == "nixl demo: interrupted"
    assert "interrupted" in last_line(second, 1)
    assert_nothing_is_left(tmp_path, decode, prefill)


def test_termination_of_the_side_that_listens_leaves_nothing(running, tmp_path):
    there, here, decode, prefill = running
    there.process.terminate()
    there.process.communicate(timeout=ENOUGH_S)
    assert there.process.returncode == 128 + signal.SIGTERM
    assert there.address in last_line(here, 1)
    assert_nothing_is_left(tmp_path, decode, prefill)


# ---- A hostile or mistaken other side --------------------------------------------------------------------


@contextlib.contextmanager
def server():
    """(socket, address) of something that listens and is no demo."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(ENOUGH_S)
        yield listening, "{}:{}".format(*listening.getsockname())


@pytest.mark.parametrize(
    "speech",
    [b"", b"SSH-2.0-OpenSSH\r\n", b"\0\0\0\2{}", b'\0\0\0\x0e["welcome", 1]', b"\0\0\0\5[1,2]", b"\0\0"],
    ids=["closes", "SSH", "object", "odd welcome", "numbers", "half a length"],
)
def test_what_listens_but_is_no_demo_is_named(file, speech):
    with server() as (listening, address):
        process = subprocess.Popen(
            command(file, "--connect", address, *LOCAL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(),
        )  # fmt: skip
        connection, _ = listening.accept()
        with connection:
            connection.sendall(speech)
            connection.shutdown(socket.SHUT_WR)
            said = last_line(process, 1)
    assert f"what listens at {address} is no `nixl demo --listen`" in said


def test_what_listens_but_is_silent_is_given_up(tmp_path, file):
    env = with_hook(tmp_path, "import nixl.cli.demo.protocol as protocol\nprotocol.HELLO_S = 0.2\n")
    with server() as (listening, address):
        said = complaint(demo(file, "--connect", address, *LOCAL, env=env), 1)
    assert address in said and "no answer within 0.2 s" in said


def test_side_that_listens_outlives_those_who_are_no_demo(tmp_path, file, listener):
    hook = "import nixl.cli.demo.protocol as protocol\nprotocol.HELLO_S = 0.5\n"
    there = listener(env=with_hook(tmp_path, hook))
    speeches = [b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 1000, b'\0\0\0\x0d["hello", {}]', b"\0\0\0\2[]"]
    for speech in speeches:
        with socket.create_connection(("127.0.0.1", there.port)) as connection:
            connection.sendall(speech)
            # It may have seen enough by now.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1000):
                    pass
    with socket.create_connection(("127.0.0.1", there.port)) as silent:
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""
        result(file, "--connect", there.address, *LOCAL)
    _, errors = there.ended(0)
    assert errors.count(" is not served: ") == len(speeches) + 1


@pytest.fixture
def served(listener, tmp_path):
    """A listening command that took this test for `--connect`, and the link to it."""
    there = listener("0", "--out", tmp_path / "out")
    link = Link(socket.create_connection(("127.0.0.1", there.port)), ENOUGH_S)
    link.send("hello", {"nixl": nixl.__version__, "backend": "LOCAL"})
    assert link.receive() == ("welcome", {"nixl": nixl.__version__, "saves": True})
    yield there, link
    link.close()


ALLOCATE = {"places": 10, "block_bytes": 64, "length": 100}


@pytest.mark.parametrize(
    "orders",
    [
        [("no_such_order", {})],
        [("__init__", {})],
        [("load", {"label": "x", "parts": [["/etc/passwd", 1]], "blocks": 1, "block_bytes": 64})],
        [("register", {"cache": 1})],
        [("save", {"path": "/tmp/x"})],
        [("start", {})],
        [("start", {"backend": 5})],
        [("start", {"backend": "LOCAL", "more": 1})],
        [("start", [])],
        [("start", {"backend": "LOCAL"}), ("start", {"backend": "LOCAL"})],
        [("start", {"backend": "LOCAL"}), ("allocate", {**ALLOCATE, "places": 0})],
        [("start", {"backend": "LOCAL"}), ("allocate", {**ALLOCATE, "places": True})],
        [("start", {"backend": "LOCAL"}), ("allocate", {**ALLOCATE, "block_bytes": 1 << 40})],
        [("start", {"backend": "LOCAL"}), ("allocate", ALLOCATE), ("check", {"area": "order"})],
        [("hello", {})],
        [("quit", {})],
        [("quit", {"problem": ""})],  # nothing was checked yet
        [("quit", {"problem": "a reason"})],
    ],
)
def test_orders_that_cannot_be_are_not_carried_out(served, tmp_path, orders):
    there, link = served
    for name, arguments in orders[:-1]:
        link.send(name, arguments)
        while (answer := link.receive())[0] == "progress":
            pass
        assert answer[0] == "result"
    link.send(*orders[-1])
    assert link.receive()[0] == "died"
    there.ended(1)
    assert os.listdir(tmp_path) == []


def test_order_before_the_result_of_the_last_one_ends_the_run(served):
    there, link = served
    link.send("start", {"backend": "LOCAL"})
    assert link.receive() == ("result", None)
    link.send("answer_pings", {})  # nobody sends any
    link.send("check", {"area": "read"})
    kind, value = link.receive()
    assert kind == "died" and "cannot be carried out now: check" in value
    there.ended(1)


def test_orders_at_the_wrong_time_fail_and_harm_nothing(served):
    there, link = served
    orders = [
        ("read_back", {"repeat": 1}),
        ("check", {"area": "read"}),
        ("place_blocks", {"part": b"\0\0\0\0"}),
        ("prepare_reads", {"address": 0}),
        ("save", {}),
        ("connect", {"metadata": b"\xff" * 1000}),
        ("start", {"backend": "LOCAL"}),
        ("allocate", ALLOCATE),
        ("place_blocks", {"part": b"\xff" * 4}),
        ("place_blocks", {"part": b"\0"}),
        ("block_bytes", {"area": "written", "block": 1 << 30, "first": 0, "count": 1}),
    ]
    kinds = []
    for name, arguments in orders:
        link.send(name, arguments)
        while (answer := link.receive())[0] == "progress":
            pass
        kinds.append(answer[0])
    assert kinds == ["failed"] * 6 + ["result"] * 2 + ["failed"] * 3
    link.close()
    there.ended(1)


def test_too_large_an_area_is_refused_before_memory_is_taken(served):
    there, link = served
    link.send("allocate", {"places": 1 << 30, "block_bytes": 1 << 30, "length": 1})
    kind, value = link.receive()
    assert kind == "refused" and "too little memory" in value
    link.close()
    there.ended(1)


@pytest.mark.parametrize("frame", [b"\xff\xff\xff\xff", (FRAME_LIMIT + 1).to_bytes(4, "big"), b"\0\0\0\4nope"])
def test_garbled_frame_in_a_run_ends_it(listener, frame):
    there = listener()
    with socket.create_connection(("127.0.0.1", there.port)) as connection:
        link = Link(connection, ENOUGH_S)
        link.send("hello", {"nixl": nixl.__version__, "backend": "LOCAL"})
        assert link.receive()[0] == "welcome"
        connection.sendall(frame)
        assert link.receive()[0] == "died"
    there.ended(1)


@pytest.mark.parametrize(
    "answer",
    [
        ("result", 5),
        ("result", {"backend": "LOCAL"}),
        ("progress", "much"),
        ("progress", -1),
        ("refused", 7),
        ("odd", None),
    ],
)
def test_answer_that_cannot_be_is_a_failure(file, answer):
    with server() as (listening, address):
        process = subprocess.Popen(
            command(file, "--connect", address, *LOCAL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(),
        )  # fmt: skip
        link = Link(listening.accept()[0], ENOUGH_S)
        with contextlib.closing(link):
            assert link.receive()[0] == "hello"
            link.send("welcome", {"nixl": nixl.__version__, "saves": False})
            assert link.receive() == ("start", {"backend": "LOCAL"})
            link.send(*answer)
            said = last_line(process, 1)
    assert f"decode at {address} answered 'start' with what cannot be its answer" in said


def test_text_of_the_other_side_cannot_move_the_cursor(file):
    with server() as (listening, address):
        process = subprocess.Popen(
            command(file, "--connect", address, *LOCAL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(),
        )  # fmt: skip
        link = Link(listening.accept()[0], ENOUGH_S)
        with contextlib.closing(link):
            link.receive()
            link.send("refused", "a\x1b[2J\nb")
            assert "a\\x1b[2J\\nb" in last_line(process, 1)


# ---- The documentation -----------------------------------------------------------------------------------


def test_commands_that_pages_show_exist():
    shown = []
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for block in re.findall(
            r"^```sh[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            shown += re.findall(r"^nixl (demo.*?) *(?:#.*)?$", block, re.MULTILINE)
    for line in shown:
        build_parser().parse_args(line.split())
    assert any("--listen" in line for line in shown) and any("--connect" in line for line in shown)

"""The pieces of `nixl demo` that need no second process."""

import hashlib
import io
import os
import socket
import stat
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from nixl import cli
from nixl.cli import demo, table, text
from nixl.cli.demo import layout, memory, protocol
from nixl.cli.demo.address import Address, of_peer, to_listen_on
from nixl.cli.demo.cache import PagedCache
from nixl.cli.demo.errors import Failed, Refused
from nixl.cli.demo.link import FRAME_LIMIT, Garbled, Link, encode
from nixl.cli.demo.listen import Session
from nixl.cli.demo.source import ENOUGH_BYTES, Source, find_source
from nixl.cli.demo.target import Target
from nixl.cli.progress import Progress


def nothing(done):
    pass


# ---- Layout ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [*range(1, 40), 1000, 20000])
@pytest.mark.parametrize("seed", [0, 1, -7, 10**30])
def test_no_two_neighbours_are_adjacent(blocks, seed):
    places = blocks + layout.SPARE_BLOCKS
    order = layout.scattered(blocks, places, seed)
    assert len(order) == len(set(order)) == blocks
    assert all(0 <= place < places for place in order)
    assert all(abs(a - b) != 1 for a, b in zip(order, order[1:]))


def test_layout_depends_on_the_seed_alone():
    assert layout.scattered(500, 502, 3) == layout.scattered(500, 502, 3)
    assert layout.scattered(500, 502, 3) != layout.scattered(500, 502, 4)


@pytest.mark.parametrize(
    "size, block, blocks", [(1, 64, 1), (64, 64, 1), (65, 64, 2), (10**9, 16384, 61036), (5, 1 << 30, 1)]
)
def test_the_last_block_may_be_filled_in_part(size, block, blocks):
    assert layout.block_count(size, block) == blocks


def test_requests_have_8192_blocks_and_cover_each_block_once():
    spans = layout.request_spans(8192 * 2 + 1)
    assert [len(span) for span in spans] == [8192, 8192, 1]
    assert [i for span in spans for i in span] == list(range(8192 * 2 + 1))


# ---- Cache -----------------------------------------------------------------------------------------------


def test_cache_holds_files_one_after_the_other(tmp_path):
    contents = [b"a" * 100, b"", b"xyz", os.urandom(1000)]
    parts = []
    for i, content in enumerate(contents):
        path = tmp_path / str(i)
        path.write_bytes(content)
        parts.append((str(path), len(content)))
    whole = b"".join(contents)
    cache = PagedCache(20, 64)
    assert cache.fill(Source("four", parts), nothing) == hashlib.sha256(whole).hexdigest()
    assert b"".join(bytes(cache.block(i)) for i in range(20)) == whole.ljust(20 * 64, b"\0")
    assert cache.sha256(range(20), len(whole), nothing) == hashlib.sha256(whole).hexdigest()
    cache.save(str(tmp_path / "saved"), range(20), len(whole), nothing)
    assert (tmp_path / "saved").read_bytes() == whole


def test_hash_and_save_follow_the_order(tmp_path):
    cache = PagedCache(4, 64)
    for i in range(4):
        cache.block(i)[:] = bytes([i]) * 64
    expected = bytes([2]) * 64 + bytes([0]) * 64 + bytes([3]) * 5
    assert cache.sha256([2, 0, 3], 133, nothing) == hashlib.sha256(expected).hexdigest()
    cache.save(str(tmp_path / "saved"), [2, 0, 3], 133, nothing)
    assert (tmp_path / "saved").read_bytes() == expected


def test_touching_changes_nothing():
    cache = PagedCache(3, 5000)
    cache.touch(nothing)
    assert bytes(cache.block(0)) + bytes(cache.block(1)) + bytes(cache.block(2)) == bytes(15000)


def test_file_that_ends_early_is_refused_with_both_sizes(tmp_path):
    (tmp_path / "first").write_bytes(b"123")
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    with pytest.raises(Refused, match=f"^{path} ended after 5 of 6 bytes$"):
        PagedCache(1, 64).fill(Source("f", [(str(tmp_path / "first"), 3), (str(path), 6)]), nothing)


def test_file_that_cannot_be_read_to_its_end_is_refused():
    # Address 0, where no process has memory.
    with pytest.raises(Refused, match="^cannot read /proc/self/mem: Input/output error$"):
        PagedCache(1, 64).fill(Source("m", [("/proc/self/mem", 6)]), nothing)


def test_memory_that_cannot_be_had_is_too_little_memory():
    with pytest.raises(Refused, match=r"^too little memory: [\d,]+ TB for a cache could not be had: [^\[]+$"):
        PagedCache(1 << 40, 1 << 30)


# ---- Source ----------------------------------------------------------------------------------------------


def test_source_is_the_file(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert find_source(str(path)) == Source(str(path), [(str(path), 5)])


def make_fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.touch(), "is empty"),
        (make_fifo, "not a regular file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
)
def test_unusable_file_is_refused_with_its_name(tmp_path, make, words):
    path = tmp_path / "some file"
    make(path)
    with pytest.raises(Refused, match=words) as refusal:
        find_source(str(path))
    assert str(path) in str(refusal.value)


def test_unreadable_file_is_refused(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"1")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            folder.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(Refused, match="Permission denied"):
            find_source(str(path))
    finally:
        os.seteuid(user)


def test_name_with_a_null_byte_is_refused():
    with pytest.raises(Refused, match="null"):
        find_source("a\0b")


def test_without_a_file_the_machine_provides_100_megabytes_the_same_ones_each_time():
    source = find_source(None)
    assert source.bytes >= ENOUGH_BYTES == 100_000_000
    assert source == find_source(None)
    assert all(os.path.getsize(path) == size for path, size in source.parts)


# ---- Target ----------------------------------------------------------------------------------------------


FIVE_BYTES = 5


def test_target_appears_when_it_is_kept(tmp_path):
    wanted = tmp_path / "out"
    wanted.write_bytes(b"old")
    wanted.chmod(0o640)
    with Target(str(wanted), FIVE_BYTES) as target:
        with open(target.path, "wb") as file:
            file.write(b"new")
        assert wanted.read_bytes() == b"old"
        target.keep()
    assert wanted.read_bytes() == b"new"
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_target_that_is_not_kept_leaves_no_trace(tmp_path):
    with Target(str(tmp_path / "out"), FIVE_BYTES):
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


def test_target_behind_a_link_replaces_what_the_link_names(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with Target(str(tmp_path / "link"), FIVE_BYTES) as target:
        target.keep()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b""


def test_device_is_written_directly():
    with Target("/dev/null", FIVE_BYTES) as target:
        assert target.path == "/dev/null"
    assert os.path.exists("/dev/null")


@pytest.mark.parametrize(
    "name, words", [("missing/out", "No such file"), (".", "directory"), ("new/", "directory"), ("n" * 300, "too long")]
)
def test_unusable_target_is_refused(tmp_path, name, words):
    with pytest.raises(Refused, match=words), Target(f"{tmp_path}/{name}", FIVE_BYTES) as target:
        target.keep()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "wanted, words",
    [("", "without a name"), ("/proc/x", "/proc/x: No such file"), ("/sys/x", "/sys/x: Permission denied")],
)
def test_target_where_no_file_can_be_is_refused_for_that(wanted, words):
    with pytest.raises(Refused, match=words), Target(wanted, FIVE_BYTES):
        pass


def test_target_that_is_an_open_file_of_this_process_is_refused():
    reading, writing = os.pipe()
    try:
        with pytest.raises(Refused, match="no name"), Target(f"/dev/fd/{writing}", FIVE_BYTES):
            pass
    finally:
        os.close(reading)
        os.close(writing)


def test_pipe_is_refused_at_once_without_a_reader_and_held_open_with_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Refused, match="no process reads"), Target(str(pipe), FIVE_BYTES):
        pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with Target(str(pipe), FIVE_BYTES) as target:
        with open(target.path, "wb") as file:
            file.write(b"12345")
        assert os.read(reader, 10) == b"12345"
        with pytest.raises(BlockingIOError):  # the end would be b""
            os.read(reader, 10)
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_target_without_room_is_refused_with_both_amounts(tmp_path):
    with pytest.raises(Refused, match=r"needs 1,000,000 TB, .* are free"):
        Target(str(tmp_path / "out"), 10**18).__enter__()
    assert os.listdir(tmp_path) == []


# ---- Memory ----------------------------------------------------------------------------------------------


def test_need_counts_the_file_once_here_and_twice_there():
    need = memory.needed(100, 102, 1 << 20)
    assert need.prefill_bytes == 100 << 20
    assert need.decode_bytes == 204 << 20
    assert need.total > 304 << 20


def test_too_little_memory_names_needed_and_available():
    with pytest.raises(Refused, match=r"needed \(prefill's cache 1\.00 GB, .*\), 2\.00 GB available"):
        memory.check(memory.Need(10**9, 2 * 10**9, 0), 2 * 10**9)
    memory.check(memory.Need(10**9, 2 * 10**9, 0), 3 * 10**9)


def test_available_is_the_least_of_machine_and_container(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert memory.available(str(meminfo), str(tmp_path)) == 5000 << 10
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available(str(meminfo), str(tmp_path)) == 5000 << 10
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100000\nactive_file 50000\n")
    assert memory.available(str(meminfo), str(tmp_path)) == 250000


def test_need_of_a_side_that_is_alone():
    assert memory.needed(0, 102, 1 << 20).prefill_bytes == 0
    assert memory.needed(100, 0, 1 << 20).decode_bytes == 0
    with pytest.raises(Refused) as refusal:
        memory.check(memory.needed(0, 102, 1 << 20), 0)
    assert "decode's two areas" in str(refusal.value) and "prefill" not in str(refusal.value)


# ---- Links, addresses, the protocol ----------------------------------------------------------------------

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text() | some.binary() | some.floats(allow_nan=False,
                                                                                              allow_infinity=False),
    lambda inner: some.lists(inner) | some.dictionaries(some.text().filter(lambda key: key != "base64"), inner),
    max_leaves=20,
)  # fmt: skip


@pytest.fixture
def ends():
    """A socket to write to, and the link at its other end."""
    a, b = socket.socketpair()
    with a:
        link = Link(b, 5.0)
        yield a, link
        link.close()


@settings(deadline=None)
@given(kind=some.text(), value=VALUES)
def test_messages_arrive_as_they_were_sent(kind, value):
    a, b = socket.socketpair()
    sender, receiver = Link(a), Link(b, 5.0)
    sender.send(kind, value)
    assert receiver.receive() == (kind, value)
    sender.close()
    with pytest.raises(EOFError):
        receiver.receive()
    receiver.close()


def test_names_of_files_arrive_with_their_bytes(ends):
    name = os.fsdecode(b"bytes \xff\xfe\n")
    ends[0].sendall(encode("load", {"parts": [(name, 1)]}))
    assert ends[1].receive() == ("load", {"parts": [[name, 1]]})


@pytest.mark.parametrize(
    "text",
    [b"", b"x", b"[]", b"{}", b'["a"]', b'["a", 1, 2]', b"[1, 2]", b'["a", NaN]', b'["a", Infinity]',
     b'["a", {"base64": 5}]', b'["a", {"base64": "*"}]', b'["a", "\xff"]',
     b"[" * 100_000, b'["a", ' + b"[" * 100_000, b"9" * 10_000],
)  # fmt: skip
def test_frames_that_are_no_messages(ends, text):
    ends[0].sendall(struct.pack(">I", len(text)) + text)
    with pytest.raises(Garbled):
        ends[1].receive()


def test_frame_that_is_too_long_is_neither_read_nor_sent(ends):
    ends[0].sendall(struct.pack(">I", FRAME_LIMIT + 1))
    with pytest.raises(Garbled, match="4,194,305 bytes"):
        ends[1].receive()
    with pytest.raises(ValueError, match="longer than a frame"):
        ends[1].send("big", "x" * FRAME_LIMIT)


@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\5[1"])
def test_end_within_a_frame_is_an_end(ends, sent):
    ends[0].sendall(sent)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        ends[1].receive()


def test_message_that_trickles_in_is_given_up():
    a, b = socket.socketpair()
    with a:
        link = Link(b, 0.2)
        a.sendall(b"\0\0\0\5[")
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            link.receive()
        assert time.monotonic() - began >= 0.19
        link.close()


def test_message_that_nobody_takes_is_given_up():
    a, b = socket.socketpair()
    with a:
        link = Link(b, 0.2)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                link.send("big", "x" * (1 << 20))
        link.close()


@pytest.mark.parametrize(
    "text, address, shown",
    [
        ("host:5", Address("host", 5), "host:5"),
        ("10.0.0.1:65535", Address("10.0.0.1", 65535), "10.0.0.1:65535"),
        ("[::1]:80", Address("::1", 80), "[::1]:80"),
        ("[fe80::1%eth0]:80", Address("fe80::1%eth0", 80), "[fe80::1%eth0]:80"),
    ],
)
def test_addresses(text, address, shown):
    assert of_peer(text) == to_listen_on(text) == address
    assert str(address) == shown


def test_listening_is_for_this_host_alone_unless_said_otherwise():
    assert to_listen_on("5005") == Address("127.0.0.1", 5005)
    assert to_listen_on("0") == Address("127.0.0.1", 0)


def test_the_protocol_knows_the_orders_of_decode_and_no_others():
    from nixl.cli.demo.decode import Decode

    for name in protocol.ORDERS:
        assert not name.startswith("_") and callable(getattr(Decode, name))


@pytest.mark.parametrize(
    "check, right, wrong",
    [
        (protocol.integer(1, 5), [1, 5], [0, 6, True, 1.0, "1", None]),
        (protocol.text(3), ["", "abc"], ["abcd", b"a", 1]),
        (protocol.blob, [b""], ["", None]),
        (protocol.one_of("a", "b"), ["a"], ["c", ["a"], {}]),
        (protocol.seconds, [1, 0.5], [0, -1, True, float("inf"), "1", 10**400]),
        (protocol.record(a=protocol.blob), [{"a": b""}], [{}, {"a": 1}, {"a": b"", "b": 1}, [], None]),
        (protocol.several(protocol.blob, 2), [[], [b"", b""]], [[1], [b""] * 3, b"", None]),
    ],
)
def test_checks_of_what_others_say(check, right, wrong):
    assert all(check(value) for value in right)
    for value in wrong:
        assert not check(value), value


# ---- Text, table, progress -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, size", [("4096", 4096), ("16K", 16384), ("16kib", 16384), ("2 M", 2 << 20), ("1G", 1 << 30)]
)
def test_sizes(given, size):
    assert text.parse_size(given) == size


@pytest.mark.parametrize("given", ["", "K", "-1", "1.5K", "0x10", "16T", "1 6", "٣"])
def test_what_is_no_size(given):
    with pytest.raises(ValueError):
        text.parse_size(given)


def test_amounts_read_well():
    assert text.binary_size(16384) == "16 KiB"
    assert text.binary_size(1000) == "1000 B"
    assert text.amount(36) == "36 B"
    assert [text.counted(count, "byte") for count in (0, 1, 1000)] == ["0 bytes", "1 byte", "1,000 bytes"]
    assert text.amount(1_000_000_001) == "1.00 GB"
    assert text.amount(300_000_001) == "300 MB"


def test_one_line_stays_one_line():
    assert text.one_line("a\nb\x1b[2J é\u2028") == "a\\nb\\x1b[2J é\\u2028"


def test_table_aligns_and_wraps():
    lines = table.render([("a", "1"), ("longer", "word " * 20), ("", "")], width=48).split("\n")
    assert lines[0] == "a       1"
    assert lines[1].startswith("longer  word word")
    assert lines[2].startswith("        word")
    assert all(len(line) <= 48 for line in lines)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_shows_share_and_speed_on_a_terminal():
    now = [0.0]
    stream = Terminal()
    progress = Progress(stream, clock=lambda: now[0])
    progress.begin("WRITE", 4 * 10**9)
    now[0] = 1.0
    progress.update(10**9)
    assert "25% of 4.00 GB" in stream.getvalue() and "1.00 GB/s" in stream.getvalue()
    assert "[#######......................." in stream.getvalue()
    now[0] = 2.0
    progress.end()
    assert "100% of 4.00 GB   2.00 GB/s" in stream.getvalue()
    assert stream.getvalue().endswith("\n") and stream.getvalue().count("\n") == 1


def test_no_control_characters_without_a_terminal_and_lines_only_now_and_then():
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: now[0])
    progress.begin("WRITE", 100)
    for second in range(12):
        now[0] = float(second)
        progress.update(second)
    progress.end()
    assert len(stream.getvalue().splitlines()) == 6
    assert stream.getvalue().replace("\n", "").isprintable()


def test_quiet_progress_says_nothing():
    stream = Terminal()
    progress = Progress(stream, quiet=True)
    progress.begin("WRITE", 100)
    progress.update(50)
    progress.end()
    progress.begin("READ", 100)
    progress.abandon()
    assert stream.getvalue() == ""


# ---- Arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--block-size", "0"], "not between 64 B and 1 GiB"),
        (["--block-size", "2G"], "not between"),
        (["--block-size", "many"], "not a size"),
        (["--repeat", "0"], "--repeat"),
        (["--seed", "x"], "--seed"),
        (["--timeout", "-1"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--timeout", "1e7"], "above 0, at most 1000000"),
        (["--backend"], "expected one argument"),
        (["--back", "LOCAL"], "unrecognized"),
        (["a", "b"], "unrecognized arguments: b"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", *arguments])
    captured = capsys.readouterr()
    assert end.value.code == 2
    assert captured.out == ""
    assert captured.err.startswith("nixl demo: ") and captured.err.count("\n") == 1
    assert words in captured.err


def test_help_names_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--help"])
    assert end.value.code == 0
    assert "Exit code" in capsys.readouterr().out


def test_the_package_describes_each_of_its_files():
    folder = os.path.dirname(demo.__file__)
    for name in os.listdir(folder):
        if name.endswith(".py") and name not in ("__init__.py", "errors.py"):
            assert f" {name} " in demo.__doc__, name


@pytest.mark.parametrize("error", [ConnectionResetError, BrokenPipeError, TimeoutError])
def test_a_peer_that_ended_broke_off_whichever_call_finds_out(error):
    class Gone:
        def send(self, kind, value):
            raise error("gone")

    session = Session(Gone(), Address("localhost", 1), None, None, 1.0)
    words = "is out of reach" if error is TimeoutError else "broke off"
    with pytest.raises(Failed, match=words):
        session._say("progress", {})

"""The result, for people and for programs."""

from __future__ import annotations

import json

from ..table import render
from ..text import amount, binary_size, counted, one_line
from .run import Outcome


def as_table(outcome: Outcome) -> str:
    write, read, notification = outcome.write_path or {}, outcome.read_path or {}, outcome.notification or {}
    rows = [
        ("file", f"{one_line(outcome.source.label)}, {counted(outcome.source.bytes, 'byte')}"),
    ]
    if outcome.decode_at:
        rows.append(("decode", f"at {outcome.decode_at}"))
    rows += _path_rows("", write)
    if (read.get("backend"), read.get("path")) != (write.get("backend"), write.get("path")):
        rows += _path_rows(" of READ", read)
    order = "in order, merged" if outcome.merge else f"scattered with seed {outcome.seed}, no two neighbours adjacent"
    rows += [
        (
            "blocks",
            f"{outcome.blocks:,} of {binary_size(outcome.block_bytes)}, {order}; "
            f"{write.get('blocks_after_merging', outcome.blocks):,} after merging",
        ),
        ("bytes", f"{outcome.moved_bytes:,} each way, in {counted(outcome.requests, 'request')}{_median_of(outcome)}"),
        ("WRITE", _speed(outcome, outcome.write_s)),
        ("READ", _speed(outcome, outcome.read_s)),
        (
            "notification",
            f"round trip p50 {notification.get('p50_us', 0):.1f} us, p99 {notification.get('p99_us', 0):.1f} us "
            f"({counted(notification.get('rounds', 0), 'round trip')})",
        ),
    ]
    if outcome.verified:
        rows.append(("verified", f"yes, SHA-256 {outcome.sha256}"))
        if outcome.out is not None:
            rows.append(("saved", one_line(outcome.out)))
    else:
        rows.append(("verified", f"NO: {outcome.difference}"))
    return render(rows)


def as_json(outcome: Outcome) -> str:
    write, read, notification = outcome.write_path or {}, outcome.read_path or {}, outcome.notification or {}
    return json.dumps(
        {
            "file": outcome.source.label,
            "file_bytes": outcome.source.bytes,
            "sha256": outcome.sha256,
            "backend": outcome.backend,
            "decode_at": outcome.decode_at,
            "write_path": write,
            "read_path": read,
            "merge": outcome.merge,
            "seed": outcome.seed,
            "repeat_count": outcome.repeat,
            "block_bytes": outcome.block_bytes,
            "block_count": outcome.blocks,
            "request_count": outcome.requests,
            "moved_bytes": outcome.moved_bytes,
            "write_s": outcome.write_s,
            "write_GBps": _gigabytes_per_second(outcome, outcome.write_s),
            "write_ns_per_block": outcome.write_s / outcome.blocks * 1e9,
            "read_s": outcome.read_s,
            "read_GBps": _gigabytes_per_second(outcome, outcome.read_s),
            "read_ns_per_block": outcome.read_s / outcome.blocks * 1e9,
            "notification_rtt_p50_us": notification.get("p50_us"),
            "notification_rtt_p99_us": notification.get("p99_us"),
            "verified": outcome.verified,
            "difference": outcome.difference or None,
            "out": outcome.out,
        }
    )


def _path_rows(suffix: str, path: dict) -> list[tuple[str, str]]:
    rows = [(f"path{suffix}", _lane(path)), ("why", one_line(path.get("reason", "")))]
    rows += [("not taken", f"{_lane(other)}: {one_line(other['reason'])}") for other in path.get("refused", ())]
    return rows


def _lane(path: dict) -> str:
    return one_line(", ".join(filter(None, (path.get("backend"), path.get("path")))))


def _speed(outcome: Outcome, seconds: float) -> str:
    return (
        f"{_gigabytes_per_second(outcome, seconds):.2f} GB/s, {seconds / outcome.blocks * 1e9:,.0f} ns per block "
        f"({amount(outcome.moved_bytes)} in {seconds * 1e3:,.1f} ms)"
    )


def _gigabytes_per_second(outcome: Outcome, seconds: float) -> float:
    return outcome.moved_bytes / seconds / 1e9 if seconds else 0.0


def _median_of(outcome: Outcome) -> str:
    return f"; medians of {outcome.repeat} times" if outcome.repeat > 1 else ""

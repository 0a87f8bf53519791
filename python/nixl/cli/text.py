"""Numbers, sizes and names as people read them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+)\s*([KMG]?)(?:I?B)?", re.IGNORECASE | re.ASCII)
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes of "4096", "16K", "16KiB" or "2m". Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"'{text}' is not a size such as 4096, 16K or 2M")
    return int(match[1]) * _FACTOR[match[2].upper()]


def binary_size(count: int) -> str:
    """An exact size in binary units where they fit: "16 KiB", "1000 B"."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def amount(count: float) -> str:
    """A rounded amount of data in decimal units: "1.00 GB", "36 B"."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:,.0f} {unit}" if count / factor >= 100 else f"{count / factor:.2f} {unit}"
    return f"{count:.0f} B"


def counted(count: int, noun: str) -> str:
    """A number of things: "1 byte", "1,000 bytes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def one_line(text: str) -> str:
    """The text with everything that would break a line or move the cursor written as an escape."""
    return "".join(c if c.isprintable() or "\udc80" <= c <= "\udcff" else repr(c)[1:-1] for c in text)

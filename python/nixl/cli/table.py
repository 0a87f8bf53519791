"""Tables of two columns for people."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable


def render(rows: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """One line per row, values aligned; long values go on under themselves, within `width` columns."""
    rows = list(rows)
    indent = max((len(name) for name, _ in rows), default=0) + 2
    columns = max((width or shutil.get_terminal_size((110, 24)).columns) - indent, 30)
    lines = []
    for name, value in rows:
        first, *rest = textwrap.wrap(value, columns, break_long_words=False, break_on_hyphens=False) or [""]
        lines.append(f"{name:<{indent}}{first}".rstrip())
        lines.extend(" " * indent + line for line in rest)
    return "\n".join(lines)

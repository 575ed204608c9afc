"""Formats numbers and names for the report (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""A row of a table (`tables`) by column."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def count(value: float | None) -> str:
    """1,234; – if it is unknown."""
    return "–" if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """12.3 MiB."""
    if value is None:
        return "–"
    step = 0
    while value >= 1024 and step < len(_UNITS) - 1:
        value, step = value / 1024, step + 1
    return f"{value:,.0f} {_UNITS[step]}" if not step or value >= 100 else f"{value:,.1f} {_UNITS[step]}"


def share(part: float | None, whole: float | None = 1) -> str:
    """12.3 %."""
    if part is None or not whole:
        return "–"
    found = 100 * part / whole
    return f"{found:.3g} %" if found < 10 else f"{found:.1f} %"


def duration(ms: float | None) -> str:
    """3 ms, 1.5 s, 2.0 min."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms:,.0f} ms"
    return f"{ms / 1000:,.3g} s" if ms < 60_000 else f"{ms / 60_000:,.3g} min"


def moment(seconds: float) -> str:
    """2026-11-21 12:00:00 UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def width(seconds: int) -> str:
    """The length of a time bucket: 10 s, 5 min, 1 h."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def place(row: Row) -> str:
    """The address of a link, or its kind if it has none."""
    return row["address"] or f"({row.get('route') or 'no address'})"


def reader(row: Row) -> str:
    """The reader of a link: the group or the user, and the address."""
    who = row["group"] or row["user"] or "the gateway"
    return f"{who} at {row['address'] or row['to_topic']}"


def key(value: bytes) -> str:
    """A record key as text, or its bytes if it is not text."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
    return text if text.isprintable() else repr(text)[1:-1]

"""Formats numbers and names for the report (pure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""A row of a table (`tables`) by column."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
ISOLATE: Final = "\u2068"  # FIRST STRONG ISOLATE
POP: Final = "\u2069"  # POP DIRECTIONAL ISOLATE
_FILTERS: Final = {
    "amqp:event-streams-delivery-annotations-filter": "",  # a position, not a selection
    "amqp:event-streams-sql-filter": "SQL",
    "amqp:sql-filter": "SQL",
    "apache.org:selector-filter:string": "selector",
}


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
    """12.3 %, with three digits below 10 %."""
    if part is None or not whole:
        return "–"
    found = 100 * part / whole
    return f"{found:#.3g} %" if 0 < found < 10 else f"{found:.1f} %"


def change(now: float, before: float) -> str:
    """How a number differs from the one before: +12.3 %, -50.0 %, twice as high as ×2.0, `new` if there was none."""
    if now == before:
        return "unchanged"
    if not before:
        return "new"
    if now / before >= 10:
        return f"×{now / before:,.0f}"
    return f"{100 * (now / before - 1):+.1f} %".replace("-", "−")


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


def name(text: str) -> str:
    """A name chosen by a client, isolated so that it does not affect the direction of the text around it."""
    written = visible(text)
    mixed = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in written)
    return f"{ISOLATE}{written}{POP}" if mixed else written


def visible(text: str) -> str:
    """The text with control characters escaped, including those that change the writing direction."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in (ISOLATE, POP) else char.encode("unicode_escape").decode()
        for char in text
    )


def place(row: Row) -> str:
    """The address of a link, or its kind if it has none."""
    return name(row["address"]) if row["address"] else f"({row.get('route') or 'no address'})"


def reader(row: Row) -> str:
    """The reader of a link: the group or the user, and the address."""
    who = row["group"] or row["user"] or "the gateway"
    return f"{name(who)} at {name(row['address'] or row['to_topic'] or '')}"


def filters(text: str | None) -> str:
    """The kinds of filters in words, without those that only set the start position."""
    kinds = (text or "").split(", ")
    names = (_FILTERS.get(kind, kind.removeprefix("amqp:").removesuffix("-filter")) for kind in kinds)
    return ", ".join(dict.fromkeys(each for each in names if each))


def key(value: bytes) -> str:
    """A record key as text, or its bytes if it is not text."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex(" ")
    return name(text) if text.isprintable() else repr(text)[1:-1]

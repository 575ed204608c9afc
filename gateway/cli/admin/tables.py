"""Tables for people, and JSON for programs, of the answers of the admin API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from gateway.observability.logs import escape
from gateway.plural import counted

_EMPTY: Final = "-"


def print_items(items: Iterable[Mapping[str, object]], columns: Mapping[str, str], output: str, none: str) -> None:
    """Print items as a table with these columns (heading by key), or as a JSON array; `none` if there are none."""
    if output == "json":
        click.echo(json.dumps(list(items), ensure_ascii=False))
        return
    rows = [[cell(each.get(key)) for key in columns] for each in items]
    if not rows:
        click.echo(none)
        return
    for line in table([*columns.values()], rows):
        click.echo(line)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; each column is as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def cell(value: object) -> str:
    """A value in a table; texts of peers cannot steer the terminal."""
    if value is None or value == "":
        return _EMPTY
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={cell(each)}" for key, each in value.items()) or _EMPTY
    return escape(str(value))


def ago(moment: str | None, now: datetime | None = None) -> str | None:
    """How long ago a time of the API is, as `3s`, `12m`, `5h` or `3d`; `None`: there is no time."""
    if moment is None:
        return None
    seconds = max(0.0, ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds())
    return span(seconds)


def span(seconds: float) -> str:
    """A duration as `3s`, `12m`, `5h` or `3d`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def serves(status: Mapping[str, Any]) -> str:
    """What a gateway serves, as `/status` says it."""
    links = f"{counted(status['connections'], 'connection')}, {counted(status['links'], 'link')}"
    return f"{links}, {status['unsettled']} unsettled"

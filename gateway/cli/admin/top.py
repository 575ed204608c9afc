"""`scopegate top`: what a running gateway does, live in a terminal."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from gateway.cli.admin.client import AdminClient, Item
from gateway.cli.admin.options import admin_command
from gateway.cli.admin.tables import ago, cell, serves, span, table

_HEAD: Final = 7
"""Lines that are no links."""
_PLAIN: Final = 20
"""Links where there is no terminal."""
_HEADINGS: Final = ("ID", "WAY", "USER", "ADDRESS", "CREDIT", "UNSETTLED", "RATE", "MESSAGES", "WAITS")
_ALONE, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's other screen without a cursor, and back."""


@admin_command
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds between looks.")
@click.option("--count", type=click.IntRange(1), help="Looks before it ends.  [default: no end in a terminal, else 1]")
def top(client: AdminClient, output: str, interval: float, count: int | None) -> None:
    """Show what a running gateway does: its state, what is down, and the busiest links. q ends it.

    Without a terminal, or with -o json, it prints one look after the other.
    """
    client.get("/rates")  # from now on the gateway looks
    if output == "json" or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print(client, output, interval, count or 1)
        return
    with _screen():
        for number in range(count or sys.maxsize):
            if number and _quits(interval):
                return
            width, height = shutil.get_terminal_size()
            lines = _lines(_look(client, max(1, height - _HEAD)))
            text = "\r\n".join(f"{line[:width]}\x1b[K" for line in [*lines][:height])
            sys.stdout.write(f"\x1b[H{text}\x1b[J")
            sys.stdout.flush()


def _print(client: AdminClient, output: str, interval: float, count: int) -> None:
    for _ in range(count):
        time.sleep(interval)
        found = _look(client, _PLAIN)
        click.echo(json.dumps(found, ensure_ascii=False) if output == "json" else "\n".join(_lines(found)))


def _look(client: AdminClient, links: int) -> Item:
    """One look: the status, the flows of rules, and the busiest links, then those that wait for credit."""
    limit = str(min(links, 1000))
    busiest = client.get("/links", {"order": "rate", "limit": limit})["items"]
    if (left := links - len(busiest)) > 0:
        busiest += client.get("/links", {"starved": "true", "limit": str(left)})["items"]
    return {"status": client.get("/status"), "rates": client.get("/rates"), "links": busiest}


def _lines(found: Item) -> Iterator[str]:
    status, flows = found["status"], found["rates"]["flows"]
    down = [f"{name}: {part['detail']}" for name, part in status["parts"].items() if not part["ready"]]
    rate = {direction: sum(each["rate"] for each in flows if each["direction"] == direction and not each["connector"])
            for direction in ("in", "out")}  # fmt: skip
    ready = "ready" if status["ready"] else "NOT READY"
    yield f"{cell(status['gateway'])}, {ready}, up {span(status['uptime_seconds'])}"
    yield serves(status)
    yield f"messages a second: {rate['in']:,.1f} in, {rate['out']:,.1f} out"
    yield f"down: {cell('; '.join(down))}"
    yield ""
    rows = [_row(link) for link in found["links"]]
    yield from table(_HEADINGS, rows) if rows else ["no link carries messages, or waits for credit"]


def _row(link: Item) -> list[str]:
    names = "id", "direction", "user", "address", "credit", "unsettled"
    rate = "-" if link["rate"] is None else f"{link['rate']:,.1f}"
    return [*(cell(link[name]) for name in names), rate, cell(link["transfers"]), cell(ago(link["waiting_since"]))]


@contextmanager
def _screen() -> Iterator[None]:
    """The other screen of the terminal, which passes each key on at once."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    sys.stdout.write(_ALONE)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(_BACK)
        sys.stdout.flush()


def _quits(seconds: float) -> bool:
    """Wait; whether the person has typed q, or has closed the terminal."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in (b"q", b"Q", b""):
            return True
    return False

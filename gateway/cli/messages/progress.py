"""The progress of `send` and `receive`: a line on a terminal's stderr, and the summary at the end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

import click

from gateway.plural import plural

_EVERY: Final = 0.5
_FIRST: Final = 2.0
"""Seconds before the first line: short commands show none."""
_INTERRUPTED: Final = 130
"""The exit code that shells use for SIGINT."""


class MessageCount:
    """Counts messages. `total` is their number if it is known."""

    def __init__(self, verb: str, total: int | None) -> None:
        self._verb, self._total = verb, total
        self.count = 0
        self._began = time.monotonic()
        self._next = self._began + _FIRST
        self._shown = False

    def add(self, count: int) -> None:
        """Count messages; on a terminal show them now and then."""
        self.count += count
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + _EVERY
            self._shown = True
            rate = self.count / (now - self._began)
            click.echo(f"\r\x1b[K{self._verb} {self._of()}, {rate:,.0f}/s", nl=False, err=True)

    def __enter__(self) -> MessageCount:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the line; an interrupt ends the command and says what was done before it."""
        self.clear()
        if kind is KeyboardInterrupt:
            click.echo(f"interrupted: {self.summary()}", err=True)
            sys.exit(_INTERRUPTED)

    def clear(self) -> None:
        """Remove the line, so that others can be printed."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._shown = False

    def summary(self) -> str:
        """What was done, in words."""
        seconds = time.monotonic() - self._began
        noun = plural(self.count, "message")
        return f"{self._verb} {self.count:,} {noun} in {seconds:.2f} s"

    def _of(self) -> str:
        return f"{self.count:,}" if self._total is None else f"{self.count:,} of {self._total:,}"

"""Where the messages of `send` come from: the command line, files, lines or JSON lines of standard input."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli import notation
from gateway.cli.common import fail
from gateway.cli.messages import json_lines

if TYPE_CHECKING:
    from gateway.amqp.link.outcomes import Outcome

_CHUNK: Final = 64 * 1024
_MAX_LINE: Final = 128 * 1024 * 1024
"""Bytes of the longest line."""


def line_batches(descriptor: int, wait: Callable[[int], None]) -> Iterator[list[bytes]]:
    """The lines of a file, pipe or terminal without their ends, as they come; `wait` waits for more to read."""
    polled = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    rest = b""
    while True:
        if polled:
            wait(descriptor)
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            fail(f"standard input: a line is longer than {_MAX_LINE >> 20} MiB; send it with --file")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def read_messages(batches: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """Encoded messages from JSON lines; empty lines are skipped. A mistake ends the command and names the line."""
    number = 0
    for lines in batches:
        found = []
        for line in lines:
            number += 1
            if line.strip():
                found.append(_message(line, number))
        yield found


def _message(line: bytes, number: int) -> bytes:
    try:
        return json_lines.read_line(line.decode(), number)
    except UnicodeDecodeError:
        fail(f"line {number}: is not UTF-8")
    except notation.MessageFileError as error:
        fail(str(error))


def read_file(path: Path) -> bytes:
    """The content of a file; a file that cannot be read ends the command."""
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"{path}: {error.strerror}")


def check_accepted(outcome: Outcome, what: str) -> None:
    """End the command if a message was not accepted, with the server's reason."""
    from gateway.amqp.link.outcomes import ACCEPTED, Rejected

    if outcome.name == ACCEPTED.name:
        return
    error = outcome.error if isinstance(outcome, Rejected) else None
    why = "" if error is None else f": {error.condition}: {error.description}"
    fail(f"{what} was not accepted: {outcome.name}{why}")

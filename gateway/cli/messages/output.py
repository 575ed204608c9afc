"""How `receive` and `request` print messages: their bodies, JSON lines, or all sections for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Final

import click

from gateway.amqp.message import sections
from gateway.cli.messages import json_lines

Printer = Callable[[bytes], None]


def printer(output: str, typed: bool) -> Printer:
    """The function that prints an encoded message in the form of the option `--output`."""
    if output == "json":
        return lambda data: _write(json_lines.line_of(data, typed=typed).encode())
    return _print_long if output == "long" else _print_body


def _print_body(data: bytes) -> None:
    """The bytes of data sections as they are; values as text or JSON."""
    values = sections.body_values(data, sections.walk(data))
    binary = [value for value in values if isinstance(value, bytes)]
    if len(binary) == len(values):
        _write(b"".join(binary))
    else:
        _write(b" ".join(_text(value).encode() for value in values))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(json_lines.plain(value), ensure_ascii=False)


def _print_long(data: bytes) -> None:
    """Each section and field on a line of its own, and an empty line."""
    for section, content in json_lines.message_object(data).items():
        if isinstance(content, dict):
            _write(section.encode())
            for name, value in content.items():
                _write(f"  {name}: {_text(value)}".encode())
        else:
            _write(f"{section}: {_text(content)}".encode())
    _write(b"")


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")


def flush() -> None:
    """Hand what was printed to the system: only then is it safe to accept the messages. Raises BrokenPipeError."""
    sys.stdout.buffer.flush()


OUTPUT: Final = click.option("-o", "--output", type=click.Choice(("body", "json", "long")), default="body",
                             show_default=True, help="Print bodies, JSON lines, or all sections.")  # fmt: skip
TYPES: Final = click.option("--types", "typed", is_flag=True,
                            help="With -o json: keep the AMQP type of every value, for send --json.")  # fmt: skip

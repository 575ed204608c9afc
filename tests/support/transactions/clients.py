"""Unmodified client libraries that work in transactions."""

from __future__ import annotations

import subprocess

from tests.support.amqp.foreign import jms_command
from tests.support.gateway.process import PATIENCE
from tests.support.project.commands import program
from tests.support.project.parts import folder


def done(command: list[str]) -> None:
    """Run a client, which prints `done` when everything was as it had to be."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, check=False)
    assert ended.stdout.strip() == "done", ended.stderr


def transacting(library: str, port: int, inputs: str, outputs: str) -> list[str]:
    """Return the command of a client that sends, receives and transforms in transactions, and rolls back each once."""
    if library == "jms":
        return [*jms_command("Transacted"), f"amqp://127.0.0.1:{port}", inputs, outputs]
    classes = f"{folder('protonj2')}/classes:{folder('protonj2')}/*"
    return [program("java"), "-cp", classes, "Transactions", "127.0.0.1", str(port), inputs, outputs]

"""The clients of Event Hubs, unmodified, as child processes that print JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.eventhubs.hubs import HubGateway
from tests.support.gateway.process import PATIENCE, Process
from tests.support.project.commands import program
from tests.support.project.parts import CLIENTS, folder

LIBRARIES = ("js", "go", "python")


def command(library: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of a client, and its environment."""
    if library == "go":
        return [str(folder("eventhubs-go") / "client")], {}
    if library == "python":
        return [sys.executable, str(Path(__file__).with_name("python_client.py"))], {}
    modules = {"NODE_PATH": str(folder("eventhubs-js") / "node_modules")}
    return [program("node"), str(CLIENTS / "eventhubs-js" / "client.js")], modules


class HubClient:
    """One client of a library at a hub."""

    def __init__(self, library: str, hubs: HubGateway, hub: str, environment: Mapping[str, str] | None = None) -> None:
        self._library = library
        self._environment = environment or {}
        self._where = [hubs.connection(), hub]

    def start(self, action: str, *arguments: str) -> Process:
        """Start the client."""
        base, environment = command(self._library)
        environment |= self._environment
        return Process(f"eventhubs-{self._library}", [*base, action, *self._where, *arguments], env=environment)

    def send(self) -> list[dict[str, Any]]:
        """Send the usual events: a single one, a batch, one with a key."""
        return finished(self.start("send"))

    def receive(self, count: int, checkpoints: Path | None = None) -> list[dict[str, Any]]:
        """Return the next events, from the checkpoints on."""
        file = [] if checkpoints is None else [str(checkpoints)]
        told = finished(self.start("subscribe", "$Default", str(count), *file))
        return [each for each in told if each["event"] == "message"]


def events(process: Process) -> list[dict[str, Any]]:
    """Return what a client has printed so far."""
    return [json.loads(line) for line in process.text().splitlines() if line.startswith("{")]


def messages(process: Process) -> list[dict[str, Any]]:
    """Return the events of the hub that a client has received so far."""
    return [each for each in events(process) if each["event"] == "message"]


def failure(process: Process) -> str:
    """Wait for the end of a client that cannot do what it was asked for; return the last error that it told."""
    try:
        code = process.wait(PATIENCE / 2)
    finally:
        process.discard()
    assert code, process.text()
    return str([each for each in events(process) if each["event"] == "error"][-1]["text"])


def finished(process: Process) -> list[dict[str, Any]]:
    """Wait for a good end; return what the client printed."""
    try:
        code = process.wait(2 * PATIENCE)
    finally:
        process.discard()
    assert code == 0, process.text()
    found = events(process)
    assert not [each for each in found if each["event"] == "error"], found
    return found

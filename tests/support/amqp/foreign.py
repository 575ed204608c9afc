"""Qpid JMS and rhea, unmodified, as clients that print JSON lines (tests/clients): commands, or threads of one Java."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.gateway.process import PATIENCE, Process, wait_until
from tests.support.jms.server import jms_server
from tests.support.project.commands import program
from tests.support.project.parts import CLIENTS, folder
from tests.support.spark.spark_classes import sharing

JAVA = "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"


def jms_command(main: str = "JmsClient") -> list[str]:
    """Return the command of a JMS client, whose classes jms_classes.py has archived."""
    return java(main, *shlex.split(sharing(folder("jms-classes"))))


def java(main: str, *options: str) -> list[str]:
    """Return the command of one of our clients with its own options for Java."""
    classes = f"{folder('jms-clients')}/clients.jar:{folder('jms')}/*"
    return [program("java"), *JAVA, *options, "-cp", classes, main]


def rhea_command() -> list[str]:
    """Return the command of the rhea client."""
    return [program("node"), str(CLIENTS / "rhea" / "client.js")]


def rhea_environment() -> dict[str, str]:
    """Tell node where the part's modules are."""
    return {"NODE_PATH": str(folder("rhea") / "node_modules")}


class Running:
    """A client at work; `events` grows as it prints."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return what the client has printed so far: all of it, or one kind of event."""
        lines = [json.loads(line) for line in self._process.text().splitlines() if line.startswith("{")]
        return [line for line in lines if kind in (None, line["event"])]

    def attached(self) -> Running:
        """Wait until the client's receiver is attached."""
        self._process.wait_ready(lambda: self.events("attached"), "the client to attach")
        return self

    def finish(self, seconds: float = 2 * PATIENCE) -> list[dict[str, Any]]:
        """Wait for a good end and return the outcomes or messages; an error of the client is the test's."""
        try:
            code = self._process.wait(seconds)
        finally:
            self._process.discard()
        assert code == 0, self._process.text()
        return [line for line in self.events() if line["event"] in ("outcome", "message")]

    def fail(self, seconds: float = 2 * PATIENCE) -> dict[str, Any]:
        """Wait for the client to end with an error and return it."""
        try:
            wait_until(lambda: not self._process.alive, "the client to end", seconds)
        finally:
            self._process.discard()
        errors = self.events("error")
        assert errors, f"ended without an error: {self._process.text()}"
        return errors[0]


@dataclass(frozen=True)
class Foreign:
    """Where a client connects and as whom; `library` is "jms" or "rhea".

    JMS clients share a Java, unless they are to be `alone`, each a command of its own.
    """

    library: str
    port: int
    user: str | None = None
    password: str | None = None
    cafile: Path | None = None
    alone: bool = False

    def run(self, verb: str, address: str, *, called: str = "", **options: object) -> Running:
        """Start `send`, `receive`, `request` or `respond`; options: count, body (`{n}` counts), timeout.

        Clients that do the same at a time are to be `called` differently, lest each read what the other prints.
        """
        given = {"url": self.url(), "address": address, "timeout": int(PATIENCE), **self._login(), **options}
        arguments = [text for key, value in given.items() for text in (f"--{key}", str(value))]
        name = f"{self.library}-{called or verb}"
        if self.library == "jms" and not self.alone:
            return Running(Process(name, [verb, *arguments], start=jms_server(*jms_command("JmsClients")).start))
        command = jms_command() if self.library == "jms" else rhea_command()
        environment: Mapping[str, str] = {} if self.library == "jms" else rhea_environment()
        return Running(Process(name, [*command, verb, *arguments], env=environment))

    def url(self) -> str:
        """Return the address of the listener as both libraries read it."""
        return f"{'amqps' if self.cafile else 'amqp'}://127.0.0.1:{self.port}"

    def _login(self) -> dict[str, object]:
        login = {"user": self.user, "password": self.password, "cafile": self.cafile}
        return {key: value for key, value in login.items() if value is not None}

"""Azure's client of Event Hubs for Java, unmodified: one process for many commands, because a Java is slow to start."""

from __future__ import annotations

import itertools
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.eventhubs.foreign import events
from tests.support.eventhubs.hubs import HubGateway
from tests.support.gateway.process import PATIENCE, Child, Process
from tests.support.project.commands import program
from tests.support.project.parts import folder

_OPTIONS = "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"


class JavaCommand:
    """One command: what the client has printed for it."""

    def __init__(self, process: Process, number: int) -> None:
        self._process, self._number = process, number

    def events(self, kind: str = "message") -> list[dict[str, Any]]:
        """Return what there is so far of a kind; an error of the client is the test's."""
        mine = [each for each in events(self._process) if each["command"] == self._number]
        assert not [each for each in mine if each["event"] == "error"], mine
        return [each for each in mine if each["event"] == kind]

    def wait(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Wait for so many events of a kind."""
        what = f"{count} times {kind} of the Java client"
        self._process.wait_ready(lambda: len(self.events(kind)) >= count, what, PATIENCE)
        return self.events(kind)

    def failure(self) -> str:
        """Wait for the client's error; return its text."""

        def told() -> list[str]:
            errors = [each for each in events(self._process) if each["event"] == "error"]
            return [each["text"] for each in errors if each["command"] == self._number]

        self._process.wait_ready(lambda: bool(told()), "an error of the Java client", PATIENCE)
        return told()[0]

    def finish(self) -> list[dict[str, Any]]:
        """Wait for the end; return the events of the hub that were received."""
        self.wait("done", 1)
        return self.events()


class JavaHubs:
    """A Java that waits for commands; it begins with the first one, and again with the first one after a kill."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._process: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def _start(self, command: Sequence[str], output: int, env: Mapping[str, str], cwd: Path | None) -> Child:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=env, cwd=cwd)
        self._child = child
        return child

    def run(self, action: str, hubs: HubGateway, hub: str, *arguments: object) -> JavaCommand:
        """Begin a command (tests/clients/eventhubs-java/HubsClient.java lists them)."""
        if self._process is None:
            classes = f"{folder('eventhubs-java')}/classes:{folder('eventhubs-java')}/*"
            command = [program("java"), *_OPTIONS, "-cp", classes, "HubsClient"]
            self._process = Process("eventhubs-java", command, start=self._start)
        number = next(self._numbers)
        line = "\t".join(map(str, (number, action, hubs.connection(), hub, *arguments)))
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())
        self._child.stdin.flush()
        return JavaCommand(self._process, number)

    def at(self, hubs: HubGateway, hub: str) -> JavaClient:
        """The client at one hub."""
        return JavaClient(self, hubs, hub)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None and self._child is not None:
            self._process.end(signal.SIGKILL)
            self._child.communicate()  # closes its input
            self._process = self._child = None


class JavaClient:
    """As `HubClient`, for this library."""

    def __init__(self, java: JavaHubs, hubs: HubGateway, hub: str) -> None:
        self._java, self._hubs, self._hub = java, hubs, hub

    def run(self, action: str, *arguments: object) -> JavaCommand:
        """Begin a command."""
        return self._java.run(action, self._hubs, self._hub, *arguments)

    def send(self) -> list[dict[str, Any]]:
        """Send the usual events: a single one, a batch, one with a key."""
        sent = self.run("send")
        sent.finish()
        return sent.events("hub")

    def receive(self, count: int, checkpoints: Path) -> list[dict[str, Any]]:
        """Return the next events, from the checkpoints on."""
        return self.run("subscribe", "$Default", count, checkpoints).finish()

"""One Java with the JMS clients of a worker, each a thread: to start a Java takes longer than what most clients do.

A client has its own connection, and its output a file of its own, as if it were a command (tests/clients/jms).
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.support.gateway.process import LOGS

LOST: Final = -9
"""The code of clients whose Java has ended, or that an interrupt does not end."""
ENDING: Final = 10.0
"""Seconds that a client has to end after an interrupt."""


class JmsThread:
    """A client, with the part of `subprocess.Popen` that the suite uses."""

    returncode: int | None = None
    _interrupted = False

    def __init__(self, server: JmsServer, number: int) -> None:
        self._server, self._number = server, number
        self.pid = server.pid

    def poll(self) -> int | None:
        """Return the exit code, or None while the client is at work."""
        self.returncode = self._server.code(self._number, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises `subprocess.TimeoutExpired`."""
        self.returncode = self._server.code(self._number, ENDING if self._interrupted else timeout)
        if self.returncode is None and self._interrupted:
            self.returncode = LOST
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a JMS client", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Interrupt the client's thread, whatever the signal."""
        self.kill()

    def kill(self) -> None:
        """Interrupt the client's thread."""
        if self.poll() is None:
            self._interrupted = True
            self._server.tell(str(self._number))


class JmsServer:
    """The Java."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as errors:
            self._java = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=False
            )
        self.pid = self._java.pid
        self._numbers = itertools.count(1)
        self._codes: dict[int, int] = {}
        self._said = b""
        self._ended = False

    def start(self, arguments: Sequence[str], output: int, env: Mapping[str, str], cwd: Path | None) -> JmsThread:
        """Start a client; `output` is the descriptor of its log. It has the environment and the folder of the Java."""
        assert not any(set(text) & {"\t", "\n"} for text in arguments), "they divide arguments"
        number = next(self._numbers)
        self.tell("\t".join([str(number), os.readlink(f"/proc/self/fd/{output}"), *arguments]))
        return JmsThread(self, number)

    def tell(self, line: str) -> None:
        """Write a line to the Java."""
        asked = _pipe(self._java.stdin)
        asked.write(f"{line}\n".encode())
        asked.flush()

    def code(self, number: int, seconds: float | None) -> int | None:
        """Return the exit code of a client; None if it has none yet after some seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        while number not in self._codes and not self._ended:
            if not self._listen(None if until is None else max(0.0, until - time.monotonic())):
                return None
        return self._codes.get(number, LOST)

    def _listen(self, seconds: float | None) -> bool:
        """Take what the Java says within some seconds; whether it said anything."""
        said = _pipe(self._java.stdout).fileno()
        waiting = select.poll()
        waiting.register(said, select.POLLIN)
        if not waiting.poll(None if seconds is None else 1000 * seconds):
            return False
        found = os.read(said, 1 << 16)
        self._ended = not found
        *lines, self._said = (self._said + found).split(b"\n")
        for line in lines:
            number, status = line.split()
            self._codes[int(number)] = int(status)
        return True

    def close(self) -> None:
        """End the Java and what runs in it."""
        _pipe(self._java.stdin).close()
        self._java.wait(30)
        _pipe(self._java.stdout).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """Narrow a pipe that was asked for."""
    assert pipe is not None
    return pipe


@functools.cache
def jms_server(*command: str) -> JmsServer:
    """Return this process's Java with clients; it ends with it."""
    LOGS.mkdir(parents=True, exist_ok=True)
    server = JmsServer(command, LOGS / f"{os.getpid()}-jms.log")
    atexit.register(server.close)
    return server

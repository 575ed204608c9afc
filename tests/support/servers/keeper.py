"""One Kafka, one Artemis and one Redis for a whole run: a process beside pytest runs them for all its workers.

The process that runs pytest (with xdist: the one that has the workers) starts the keeper and holds a pipe to it. A
server is started when a worker first asks for it. When the pipe closes, however that came about, the keeper kills its
servers and ends; `sweep` ends what a killed keeper has left.

A question is the name of a server in a connection to a Unix socket whose name is in the environment. The answer is
JSON: what the server's users need to know of it, or `error`. No file has that name: a path may be too long for it, and
a killed run would leave the file behind.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.gateway.process import KEEPING

VARIABLE = "SCOPEGATE_TEST_KEEPER"
"""Names the keeper's socket to everybody below the process that has started it."""
_LONGEST = 1 << 16


class Keeper:
    """The keeper of this run, in the process that has started it."""

    def __init__(self, log: Path, root: Path) -> None:
        name = f"scopegate-keeper-{uuid4().hex}"
        with log.open("ab") as output:
            command = [sys.executable, "-m", __name__, name]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": output}
            self._process = subprocess.Popen(command, cwd=root, env={**os.environ, KEEPING: "1"}, **pipes)
        assert self._process.stdout is not None
        assert self._process.stdout.read(1), f"the keeper has ended: see {log}"
        os.environ[VARIABLE] = name

    def close(self) -> None:
        """End it and its servers."""
        os.environ.pop(VARIABLE, None)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ask(name: str) -> dict[str, Any]:
    """Return what there is to know of a shared server, which runs from now on."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{os.environ[VARIABLE]}")
        connection.sendall(name.encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            told: dict[str, Any] = json.loads(answer.read())
    assert "error" not in told, told["error"]
    return told


# -- the process


class SharedServer:
    """One server: started once, by whoever asks first; the others wait for that."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start, self._lock = start, threading.Lock()
        self.server: Any = None

    def told(self) -> Mapping[str, Any]:
        """The facts that users of the server receive."""
        with self._lock:
            if self.server is None:
                self.server = self._start()
        told = {"port": self.server.port, "log": str(self.server.process.log_file)}
        return {**told, "data": str(self.server.data)} if hasattr(self.server, "data") else told


def _kafka() -> Any:
    from tests.support.servers.kafka import KafkaBroker

    return KafkaBroker()


def _artemis() -> Any:
    from tests.support.servers.servers import Artemis

    return Artemis()


def _redis() -> Any:
    from tests.support.servers.servers import Redis

    return Redis()


def answer(connection: socket.socket, servers: Mapping[str, SharedServer]) -> None:
    """Answer the question that a connection brings."""
    with connection:
        try:
            told = servers[connection.recv(_LONGEST).decode()].told()
        except Exception as error:  # whoever has asked fails with it
            told = {"error": f"{type(error).__name__}: {error}"}
        connection.sendall(json.dumps(told).encode())


def _accept(listener: socket.socket, servers: Mapping[str, SharedServer]) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, servers), daemon=True).start()


def serve(name: str) -> None:
    """Answer until the other end of standard input closes; the end of this process is that of its servers."""
    servers = {"kafka": SharedServer(_kafka), "artemis": SharedServer(_artemis), "redis": SharedServer(_redis)}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        os.write(1, b"!")
        threading.Thread(target=_accept, args=(listener, servers), daemon=True).start()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    os.setsid()  # a Ctrl-C at the terminal is for pytest, which still has tests to end
    serve(sys.argv[1])

"""Ports at which nobody may connect: listeners that accept nothing, and know who tried."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final


class Tripwires:
    """Listeners on this machine; the kernel completes a connection to one, and it waits here."""

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._listeners: Final = listeners
        self.ports: Final[list[int]] = [each.getsockname()[1] for each in listeners]

    def touched(self) -> list[int]:
        """The ports to which somebody has connected since the last call."""
        return [port for port, each in zip(self.ports, self._listeners, strict=True) if _accepted(each)]


def _accepted(listener: socket.socket) -> bool:
    """Close what has connected; return if there was anything."""
    found = False
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return found
        found = True
        connection.close()


@contextmanager
def tripwires(count: int) -> Iterator[Tripwires]:
    """So many of them, on free ports."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        for each in listeners:
            each.setblocking(False)
        yield Tripwires(listeners)

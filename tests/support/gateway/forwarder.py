"""A TCP forwarder in front of a server, which can be cut and restored: the network between a gateway and a broker."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

from tests.support.gateway.process import free_port


class Forwarder:
    """Listens on `port` and forwards to another loopback port until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self._sockets: list[socket.socket] = []
        self._joining = threading.Lock()
        self.mend()

    def mend(self) -> None:
        """Listen (again)."""
        self._server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        """Drop every connection and refuse new ones, also one that is being joined now."""
        self._shut(self._server)
        with self._joining:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            self._shut(each)

    @staticmethod
    def _shut(each: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it may have ended by itself
            each.shutdown(socket.SHUT_RDWR)
        each.close()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                with self._joining:
                    self._join(near, server)

    def _join(self, near: socket.socket, server: socket.socket) -> None:
        """Connect to the server and forward; without one, or when it has been cut, the client hears as much."""
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        if server.fileno() < 0:
            near.close()
            far.close()
            return
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.passed(source, data)
                sink.sendall(data)
        self._shut(sink)

    def passed(self, source: socket.socket, data: bytes) -> None:
        """Hear what goes through (`wiretap`)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

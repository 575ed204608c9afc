"""nats-py's client: TLS where we require it, one PING for everything that was published before it, and no wait for
answers on a connection that has ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, TypeVar

from nats.aio.client import Client
from nats.errors import ConnectionClosedError, Error, ProtocolError
from nats.protocol.parser import Parser

from bridges.cloudevents.sinks.common.receive_budget import ReceiveBudget
from gateway.tasks import Supervisor, Work

T = TypeVar("T")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


_GREETING: Final = 1 << 20
"""Bytes that a server may send unasked: INFO, also later ones, and PING."""


class _BoundedParser(Parser):
    """Ends the connection of a server that sends more than answers; the library keeps messages of any size."""

    def __init__(self, client: Client, budget: ReceiveBudget) -> None:
        super().__init__(client)
        self._budget: Final = budget

    async def parse(self, data: bytes = b"") -> None:
        if not self._budget.spend(len(data)):
            raise ProtocolError
        await super().parse(data)


class TlsNotOffered(OSError):
    """The server does not offer the TLS that the sink's URI requires."""


class ConfirmingClient(Client):
    """A connection to one server; by itself, the library uses TLS only if the server requires it."""

    def __init__(self, supervisor: Supervisor, *, secured: bool) -> None:
        super().__init__()
        self._budget: Final = ReceiveBudget(_GREETING)
        self._ps = _BoundedParser(self, self._budget)
        self._supervisor: Final = supervisor
        self._secured: Final = secured
        self._dropped = False
        self._current: asyncio.Future[Exception | None] | None = None
        self._next: asyncio.Future[Exception | None] | None = None
        self.confirmations = 0
        """Number of PINGs that have confirmed something."""
        self._lost: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    async def _process_info(self, info: dict[str, object], initial_connection: bool = False) -> None:
        """Check TLS before anything is sent: neither server nor man in the middle can downgrade the connection."""
        if self._secured and initial_connection and not info.get("tls_required"):
            raise TlsNotOffered
        if type(info.get("max_payload", 0)) is not int:
            raise ProtocolError
        await super()._process_info(info, initial_connection=initial_connection)

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """See nats-py; one more answer may come."""
        self._budget.on_published()
        await super().publish(subject, payload, reply, headers)

    async def publish_frames(self, frames: Sequence[bytes]) -> None:
        """Publish messages, each a `message_frame`, by one write; raises nats' `Error`."""
        if not self.is_connected:
            raise ConnectionClosedError
        self._budget.on_published(len(frames))
        self.stats["out_msgs"] += len(frames)
        await self._send_command(b"".join(frames))

    @property
    def usable(self) -> bool:
        """Whether more may be published: it is connected, and what the server answers is read."""
        return self.is_connected and not self._dropped and self._reads

    @property
    def _reads(self) -> bool:
        """Whether the library reads: without that, its `flush` returns at once, although nothing is confirmed."""
        return self._reading_task is not None and not self._reading_task.done()

    def drop(self) -> None:
        """End the connection at once; a server that reads nothing would hold up the library's `close` forever."""
        if not self._dropped:
            self._dropped = True
            writer = getattr(self._transport, "_io_writer", None)
            if writer is not None:
                writer.transport.abort()
            self._pending, self._pending_data_size = [], 0  # uvloop refuses to write to a socket that is closed
            self._set_lost()
            self._supervisor.start(self._close_quietly(), "nats-close")

    async def _close_quietly(self) -> None:
        with suppress(Error, OSError):
            await self.close()

    async def on_closed(self) -> None:
        """The library's `closed_cb`."""
        self._set_lost()

    def _set_lost(self) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    async def unless_lost(self, work: Work[T]) -> T:
        """The result of a call of this client; raises its nats `Error` or OSError.

        The library lets calls wait for their time limit after the connection has ended.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        running = self._supervisor.start(_settle(result, work), "nats-call")
        try:
            await asyncio.wait((running, self._lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
        if not result.done():
            raise ConnectionClosedError
        return result.result()

    async def confirm(self, seconds: int) -> None:
        """Wait until the server has what was published before; raises nats' `Error` or OSError.

        Callers share a PING: while one is on its way, the next waits for all that is published meanwhile. Without an
        answer the connection ends: a PONG does not tell which PING it is for.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._supervisor.start(self._confirm(self._next, self._current, seconds), "nats-confirm")
        failure = await asyncio.shield(self._next)
        if failure is not None:
            raise failure

    async def _confirm(
        self, result: asyncio.Future[Exception | None], before: asyncio.Future[Exception | None] | None, seconds: int
    ) -> None:
        failure: Exception | None = ConnectionClosedError()
        try:
            if before is not None:
                await asyncio.wait((before,))
            self._current, self._next = result, None
            await self._flush_pending(force_flush=True)  # `flush` writes its PING ahead of what is not written yet
            await self.unless_lost(self._ping(seconds))
            failure = None
            self.confirmations += 1
        except (Error, OSError) as error:
            failure = error
        finally:
            if failure is not None:
                self.drop()
            result.set_result(failure)

    async def _ping(self, seconds: int) -> None:
        if not self._reads:
            raise ConnectionClosedError
        await self.flush(seconds)


def header_block(headers: Mapping[str, str]) -> bytes:
    """The header block of a message; raises ValueError for names and values that no header can have."""
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if text.count("\n") != len(lines) or text.count("\r") != len(lines) or not all(map(_is_name, headers)):
        raise ValueError("a header has a line break, or no name")
    return f"NATS/1.0\r\n{text}\r\n".encode()


def message_frame(subject: bytes, head: bytes, payload: bytes) -> bytes:
    """A message with a header block, as it is published."""
    size = len(head)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, size, size + len(payload), head, payload)


@lru_cache(1024)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


async def _settle(result: asyncio.Future[T], work: Work[T]) -> None:
    try:
        result.set_result(await work)
    except Exception as error:  # raised to the caller
        result.set_exception(error)

"""nats-py's client: TLS where we require it, and one PING for everything that was published before it."""

from __future__ import annotations

import asyncio
from typing import Final

from nats.aio.client import Client
from nats.errors import ConnectionClosedError, Error

from gateway.tasks import Supervisor


class TlsNotOffered(OSError):
    """The server does not offer the TLS that the sink's URI requires."""


class ConfirmingClient(Client):
    """A connection to one server; by itself, the library uses TLS only if the server requires it."""

    def __init__(self, supervisor: Supervisor, *, secured: bool) -> None:
        super().__init__()
        self._supervisor: Final = supervisor
        self._secured: Final = secured
        self._current: asyncio.Future[Exception | None] | None = None
        self._next: asyncio.Future[Exception | None] | None = None

    async def _process_info(self, info: dict[str, object], initial_connection: bool = False) -> None:
        """Check TLS before anything is sent: neither server nor man in the middle can downgrade the connection."""
        if self._secured and initial_connection and not info.get("tls_required"):
            raise TlsNotOffered
        await super()._process_info(info, initial_connection=initial_connection)

    async def confirm(self, seconds: int) -> None:
        """Wait until the server has what was published before; raises nats' `Error` or OSError.

        Callers share a PING: while one is on its way, the next waits for all that is published meanwhile.
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
            await self.flush(seconds)
            failure = None
        except (Error, OSError) as error:
            failure = error
        finally:
            result.set_result(failure)

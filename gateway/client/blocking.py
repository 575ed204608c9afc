"""A blocking AMQP client: one connection and its links, on the gateway's own engine.

Every wait has a time limit. Errors are `AmqpError`, with the peer's description if it sent one.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from gateway.amqp.codec.types import Symbol
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.link.link import Link
from gateway.amqp.proton.proton_data import AttachReply
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.sasl.password_checks import Ticket
from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.flush_scheduler import FlushScheduler
from gateway.amqp.transport.handshake import Handshake
from gateway.amqp.transport.tls import TlsError, client_context
from gateway.client.links import PATIENCE, BlockingReceiver, BlockingSender, Handler
from gateway.client.settling import SettlingReceiver
from gateway.errors import INTERNAL_ERROR, NOT_ALLOWED, UNAUTHORIZED_ACCESS, AmqpError
from policies.values.units import Endpoint

_HANDSHAKE: Final = 10.0
_LOOK: Final = 1.0
"""Seconds after which a condition is asked again, also if nothing has changed."""
WINDOW: Final = 20_000
"""Messages that a peer may send ahead of need."""
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


@dataclass(frozen=True)
class Credentials:
    """Who connects: a user, else the subject of the certificate, else an anonymous client."""

    user: str | None = None
    password: str | None = None
    ca: str | None = None
    """A PEM file of authorities that an amqps server's certificate may be from; default: those of the system."""
    plain: bool = False
    """PLAIN may be used without TLS."""
    cert: str | None = None
    """A PEM file with the client certificate for an amqps server, and one with its key."""
    key: str | None = None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that fit."""
        if self.user:
            return _MECHANISMS
        return ("EXTERNAL",) if self.cert else ("ANONYMOUS",)

    def tls(self) -> ssl.SSLContext:
        """The TLS context for an amqps server. Raises `AmqpError` for a file that cannot be used."""
        ca, cert, key = (None if name is None else Path(name) for name in (self.ca, self.cert, self.key))
        try:
            return client_context(ca=ca, cert=cert, key=key)
        except TlsError as error:
            raise AmqpError(INTERNAL_ERROR, str(error)) from None

    def __str__(self) -> str:
        return self.user or ("its certificate" if self.cert else "nobody in particular")


class BlockingClient:
    """A connection to one endpoint, for use in a `with` statement."""

    def __init__(
        self, endpoint: Endpoint, credentials: Credentials = Credentials(), *, name: str = "pipeline"
    ) -> None:
        """`name` is the first part of the container-id and of the links' names."""
        self._endpoint: Final = endpoint
        self._credentials: Final = credentials
        self._name: Final = name
        self._loop: Final = asyncio.new_event_loop()
        self._changed: Final = asyncio.Event()
        self._host: Final = _ClientDelegate(endpoint, credentials, name, self._changed.set)
        self._links = 0
        self._last_work = self._loop.time()

    @property
    def silent(self) -> bool:
        """Whether it was idle for so long that the peer may have closed it (2.4.5): then use another one.

        It works only within calls, and Spark may compute for minutes between two calls.
        """
        idle_timeout = self._host.engine.remote_idle / 2
        return bool(idle_timeout) and self._loop.time() - self._last_work > idle_timeout

    def __enter__(self) -> BlockingClient:
        try:
            self._loop.run_until_complete(self._connect())
            self.wait(lambda: self._host.open, _HANDSHAKE, "an open")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    async def _connect(self) -> None:
        endpoint = self._endpoint
        tls = self._credentials.tls() if endpoint.tls else None
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await self._loop.create_connection(
                    self._connection,
                    endpoint.host,
                    endpoint.port,
                    ssl=tls,
                    server_hostname=endpoint.host if endpoint.tls else None,
                )
        except (OSError, TimeoutError, UnicodeError) as error:  # UnicodeError: a host name that DNS cannot hold
            raise AmqpError(INTERNAL_ERROR, f"{endpoint} is not reached: {_reason(error)}") from None

    def _connection(self) -> Connection:
        hub = FlushScheduler(self._loop)
        return _ClientConnection(hub, self._host, server=False, handshake=_HANDSHAKE, name=self._name)

    def wait(self, condition: Callable[[], bool], seconds: float, what: str = "") -> bool:
        """Let the connection work until the condition holds, for at most `seconds`; returns whether it holds.

        The condition is asked after each change of the connection or its links, and each second.
        Raises `AmqpError` if the connection ends, and, if `what` names what is awaited, when the time is up.
        """
        deadline = self._loop.time() + seconds
        self._changed.clear()  # not within the loop: changes before `_wait_for_change` must end it
        while not condition():
            if self._host.error is not None:
                raise self._host.error
            left = deadline - self._loop.time()
            if left <= 0:
                if what:
                    raise AmqpError(INTERNAL_ERROR, f"{self._endpoint} gave no answer: {what}")
                return False
            self._loop.run_until_complete(self._wait_for_change(min(left, _LOOK)))
            self._last_work = self._loop.time()
            self._changed.clear()
        return True

    def work(self) -> None:
        """Let the connection write its output and read what has arrived, without waiting."""
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _wait_for_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def receiver(
        self,
        address: str,
        *,
        properties: Mapping[Symbol, object] | None = None,
        filter: Mapping[Symbol, object] | None = None,
        window: int = WINDOW,
    ) -> BlockingReceiver:
        """Attach with a credit of at most `window` messages. Raises `AmqpError` if the peer refuses the link."""
        receiver = BlockingReceiver(self, self._changed.set, window)
        granted = AttachReply(address, properties=properties, filter=filter, settled=True)
        receiver.link = self._attach(receiver, True, granted)
        return receiver

    def settling_receiver(self, wanted: AttachReply) -> SettlingReceiver:
        """Attach a receiver whose caller settles. Raises `AmqpError` if the peer refuses the link."""
        receiver = SettlingReceiver(self, self._changed.set)
        receiver.link = self._attach(receiver, True, wanted)
        return receiver

    def sender(self, address: str, properties: Mapping[Symbol, object] | None = None) -> BlockingSender:
        """Attach a sender. Raises `AmqpError` if the peer refuses the link."""
        sender = BlockingSender(self, self._changed.set)
        sender.link = self._attach(sender, False, AttachReply(address, properties=properties))
        return sender

    def wait_readable(self, descriptor: int) -> None:
        """Let the connection work until a pipe or terminal has something to read. Raises `AmqpError` if it ends."""
        ready = asyncio.Event()

        def readable() -> None:
            ready.set()
            self._changed.set()

        self._loop.add_reader(descriptor, readable)
        try:
            while not self.wait(ready.is_set, PATIENCE):
                pass
        finally:
            self._loop.remove_reader(descriptor)

    def _attach(self, handler: Handler, incoming: bool, granted: AttachReply) -> Link:
        engine = self._host.engine
        self._links += 1
        link: Link = engine.attach(f"{self._name}-{uuid.uuid4().hex[:8]}-{self._links}", incoming=incoming)
        link.keep_annotations()  # this is the last hop: rows have every annotation
        link.request(handler, granted)
        self.wait(lambda: handler.attached or handler.ended, PATIENCE, f"an attach to {granted.address}")
        handler.check()
        return link

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._host.connection
        if connection is not None and connection.transport is not None:
            connection.close()
            connection.abort(gently=True)
            self._loop.run_until_complete(asyncio.sleep(0.01))  # the loop writes what is waiting, and ends the socket
        self._loop.close()


class _ClientConnection(Connection):
    """Keeps the reason why the socket ended: a server reports a missing client certificate only in TLS."""

    reason: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.reason = exc
        super().connection_lost(exc)


def _reason(error: Exception) -> str:
    """Why a socket ended or was not opened."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        reason = error.reason.replace("_", " ").lower()
        return f"{reason} (options cert and key)" if "certificate required" in reason else reason
    return str(error) or "timed out"


class _ClientDelegate:
    """The delegate of the connection."""

    def __init__(
        self, endpoint: Endpoint, credentials: Credentials, name: str, changed: Callable[[], None]
    ) -> None:
        self._endpoint, self._credentials, self._name, self._changed = endpoint, credentials, name, changed
        self.connection: Connection | None = None
        self.open = False
        self.error: AmqpError | None = None

    @property
    def engine(self) -> Engine:
        """The engine of the open connection. Raises `AmqpError` if it has ended."""
        if self.error is not None:
            raise self.error
        assert self.connection is not None
        assert self.connection.engine is not None, "it is there once the connection is open"
        return self.connection.engine

    def _over(self, condition: str, text: str) -> None:
        if self.error is None:
            self.error = AmqpError(condition, text)
        self._changed()

    def check_password(
        self, connection: Connection, passes: Callable[[], bool], then: Callable[[bool], None]
    ) -> Ticket:
        raise AssertionError("a client logs in; it checks nobody's password")

    def secure(self, connection: Connection) -> SaslClient:
        who = self._credentials
        tls, plain = connection.ssl_object is not None, who.plain
        return SaslClient(
            who.mechanisms, who.user, who.password, self._endpoint.host, tls=tls, allow_plain_without_tls=plain
        )

    def engine_config(self, connection: Connection) -> EngineConfig:
        return EngineConfig(f"scopegate-{self._name}-{uuid.uuid4().hex[:8]}", hostname=self._endpoint.host)

    def established(self, connection: Connection) -> None:
        self.connection = connection

    def refused(self, connection: Connection, reason: str) -> None:
        self._over(INTERNAL_ERROR, f"{self._endpoint}: {reason}")

    def unauthenticated(self, connection: Connection, security: Handshake) -> None:
        assert isinstance(security, SaslClient)  # `secure` made it
        who, why = self._credentials, security.reason
        if why == "credentials" and who.user:
            why = "wrong user or password"
        elif why == "mechanism":
            why = f"it offers {', '.join(security.offered)}, not {' or '.join(who.mechanisms)}"
            if who.user and "PLAIN" in security.offered:
                why = "it offers PLAIN alone, which needs amqps:// (or the option that allows PLAIN without TLS)"
        self._over(UNAUTHORIZED_ACCESS, f"{self._endpoint} refuses the login of {who}: {why}")

    def opened(self, connection: Connection) -> None:
        self.open = True
        self._changed()

    def requested(self, connection: Connection, link: Link) -> None:
        raise AmqpError(NOT_ALLOWED, "this is a client")

    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...

    def closed(self, connection: Connection, error: AmqpError | None) -> None:
        broken = connection.reason if isinstance(connection, _ClientConnection) else None
        if error is not None:
            reason = f"{error.condition}: {error.description}"
        elif broken is not None:
            reason = _reason(broken)
        elif self.open or not self._endpoint.tls:
            reason = "without a reason"
        else:  # some servers leave out the alert
            wants = "does not believe our" if self._credentials.cert else "wants a"
            reason = f"without a reason; it may be that it {wants} certificate (options cert and key)"
        self._over(INTERNAL_ERROR, f"{self._endpoint} closed the connection: {reason}")

"""An AMQP client that blocks, for Spark's tasks: one connection, links on it, the gateway's own engine below.

Every wait has an end. What goes wrong is an `AmqpError`: the peer's own words where it said some.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from gateway.amqp.connection import Connection, Hub
from gateway.amqp.engine_config import EngineConfig
from gateway.amqp.link import Link
from gateway.amqp.outcomes import ACCEPTED, Outcome
from gateway.amqp.pndata import Granted
from gateway.amqp.sasl_client import SaslClient
from gateway.errors import INTERNAL_ERROR, NOT_ALLOWED, UNAUTHORIZED_ACCESS, AmqpError
from policies.units import Endpoint

_HANDSHAKE: Final = 10.0
_PATIENCE: Final = 30.0
_WINDOW: Final = 10_000
_LOT: Final = 8 * 1024 * 1024
"""Bytes of messages that are handed on however few they are."""
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


@dataclass(frozen=True)
class Credentials:
    """Who connects; without a user, nobody in particular. `ca` is a file of authorities for amqps."""

    user: str | None = None
    password: str | None = None
    ca: str | None = None
    plain: bool = False
    """PLAIN may be used without TLS."""


class Client:
    """A connection to one endpoint, for use in a `with` statement."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials = Credentials()) -> None:
        self._endpoint: Final = endpoint
        self._credentials: Final = credentials
        self._loop: Final = asyncio.new_event_loop()
        self._changed: Final = asyncio.Event()
        self._host: Final = _Host(endpoint, credentials, self._changed.set)
        self._links = 0

    def __enter__(self) -> Client:
        try:
            self._loop.run_until_complete(self._connect())
            self.wait(lambda: self._host.open, _HANDSHAKE, "an open")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    async def _connect(self) -> None:
        endpoint = self._endpoint
        tls = ssl.create_default_context(cafile=self._credentials.ca) if endpoint.tls else None
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await self._loop.create_connection(
                    self._connection,
                    endpoint.host,
                    endpoint.port,
                    ssl=tls,
                    server_hostname=endpoint.host if endpoint.tls else None,
                )
        except (OSError, TimeoutError) as error:
            raise AmqpError(INTERNAL_ERROR, f"{endpoint} is not reached: {error or 'timed out'}") from None

    def _connection(self) -> Connection:
        return Connection(Hub(self._loop), self._host, server=False, handshake=_HANDSHAKE, name="pipeline")

    def wait(self, condition: Callable[[], bool], seconds: float, what: str = "") -> bool:
        """Let the connection work until the condition holds: True. Out of time: False, or an error if `what` is said.

        Raises the connection's error when that is over.
        """
        deadline = self._loop.time() + seconds
        while not condition():
            if self._host.error is not None:
                raise self._host.error
            left = deadline - self._loop.time()
            if left <= 0:
                if what:
                    raise AmqpError(INTERNAL_ERROR, f"{self._endpoint} gave no answer: {what}")
                return False
            self._loop.run_until_complete(self._news(left))
        return True

    async def _news(self, seconds: float) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def receiver(
        self,
        address: str,
        *,
        properties: Mapping[Any, Any] | None = None,
        filter: Mapping[Any, Any] | None = None,
        window: int = _WINDOW,
    ) -> Receiver:
        """Attach to receive at most `window` messages ahead of need; raises what the peer refuses it with."""
        receiver = Receiver(self, self._changed.set, window)
        granted = Granted(address, properties=properties, filter=filter, settled=True)
        receiver.link = self._attach(receiver, True, granted)
        return receiver

    def sender(self, address: str) -> Sender:
        """Attach to send; raises what the peer refuses it with."""
        sender = Sender(self, self._changed.set)
        sender.link = self._attach(sender, False, Granted(address))
        return sender

    def _attach(self, handler: _Handler, incoming: bool, granted: Granted) -> Link:
        engine = self._host.engine
        self._links += 1
        link: Link = engine.attach(f"pipeline-{uuid.uuid4().hex[:8]}-{self._links}", incoming=incoming)
        link.request(handler, granted)
        self.wait(lambda: handler.attached or handler.ended, _PATIENCE, f"an attach to {granted.address}")
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


class _Host:
    """Host of the connection (`connection.Host`)."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials, changed: Callable[[], None]) -> None:
        self._endpoint, self._credentials, self._changed = endpoint, credentials, changed
        self.connection: Connection | None = None
        self.open = False
        self.error: AmqpError | None = None

    @property
    def engine(self) -> Any:
        """The engine of a connection that is open."""
        if self.error is not None:
            raise self.error
        assert self.connection is not None
        return self.connection.engine

    def _over(self, condition: str, text: str) -> None:
        if self.error is None:
            self.error = AmqpError(condition, text)
        self._changed()

    def secure(self, connection: Connection) -> SaslClient:
        who = self._credentials
        mechanisms = _MECHANISMS if who.user else ("ANONYMOUS",)
        tls, plain = connection.ssl_object is not None, who.plain
        return SaslClient(
            mechanisms, who.user, who.password, self._endpoint.host, tls=tls, allow_plain_without_tls=plain
        )

    def engine_config(self, connection: Connection) -> EngineConfig:
        return EngineConfig(f"scopegate-pipeline-{uuid.uuid4().hex[:8]}", hostname=self._endpoint.host)

    def established(self, connection: Connection) -> None:
        self.connection = connection

    def refused(self, connection: Connection, reason: str) -> None:
        self._over(INTERNAL_ERROR, f"{self._endpoint}: {reason}")

    def unauthenticated(self, connection: Connection, security: Any) -> None:
        who = self._credentials.user or "nobody in particular"
        why = "wrong user or password" if security.reason == "credentials" else security.reason
        self._over(UNAUTHORIZED_ACCESS, f"{self._endpoint} refuses the login of {who}: {why}")

    def opened(self, connection: Connection) -> None:
        self.open = True
        self._changed()

    def requested(self, connection: Connection, link: Link) -> None:
        raise AmqpError(NOT_ALLOWED, "this is a client")

    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...

    def closed(self, connection: Connection, error: AmqpError | None) -> None:
        said = f"{error.condition}: {error.description}" if error else "without a reason"
        self._over(INTERNAL_ERROR, f"{self._endpoint} closed the connection: {said}")


class _Handler:
    link: Link

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._client: Final = client
        self._changed: Final = changed
        self.attached = False
        self.ended = False
        self._error: AmqpError | None = None

    def check(self) -> None:
        """Raise what ended the link."""
        if self.ended:
            raise self._error or AmqpError(INTERNAL_ERROR, "the peer ended the link without a reason")

    def on_attached(self, link: Link) -> None:
        if (link.source if link.incoming else link.target).address is not None:  # else a refusal follows
            self.attached = True
            self._changed()

    def on_detach(self, error: AmqpError | None) -> None:
        self.ended, self._error = True, error
        self._changed()

    on_refused = on_detach


class Receiver(_Handler):
    """A link that messages come on, settled or else accepted as they come: events stay in their log."""

    def __init__(self, client: Client, changed: Callable[[], None], window: int) -> None:
        super().__init__(client, changed)
        self._window: Final = window
        self._messages: list[bytes] = []
        self._size = 0
        self._wanted = 1
        self._drained = False

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        messages = self._messages
        messages.append(data)
        self._size += len(data)
        if settled:
            self.link.forget(delivery)
        else:
            self.link.settle(delivery, ACCEPTED)
        if len(messages) >= self._wanted or self._size >= _LOT:
            self._changed()

    def on_drained(self) -> None:
        self._drained = True
        self._changed()

    def take(self, count: int, idle: float) -> list[bytes]:
        """About the next `count` messages, or less in bytes enough, or what there is after `idle` seconds without one.

        Raises what ended the link.
        """
        link = self.link
        while len(self._messages) < count and self._size < _LOT and not self.ended:
            if link.granted < self._window // 2 or not link.granted:
                link.grant(self._window - link.granted)
            before = len(self._messages)
            self._wanted = min(count, before + max(self._window // 2, 1))
            self._client.wait(self._enough, idle)
            if len(self._messages) == before:
                break
        if not self._messages:
            self.check()
        return self._taken()

    def _enough(self) -> bool:
        return len(self._messages) >= self._wanted or self._size >= _LOT or self.ended

    def _taken(self) -> list[bytes]:
        messages, self._messages, self._size = self._messages, [], 0
        return messages

    def rest(self) -> list[bytes]:
        """What there is up to the end of the log, or a window of it, at once (drain, 2.6.7); none: this is the end."""
        self._drained = False
        self.link.grant(max(self._window - self.link.granted, 0))
        self.link.drain()
        # credit that is used up is the other end of a drain: no flow answers it then (2.6.7)
        self._wanted = self._window
        self._client.wait(lambda: self._drained or self.link.granted <= 0 or self.ended, _PATIENCE, "a drain")
        found = self._taken()
        if not found:
            self.check()
        return found

    def close(self) -> None:
        """Detach."""
        self.link.detach()


class Sender(_Handler):
    """A link to send on."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        super().__init__(client, changed)
        self._outcomes: Final[dict[int, Outcome]] = {}

    def on_credit(self) -> None:
        self._changed()

    def on_outcome(self, context: int, outcome: Outcome) -> None:
        self._outcomes[context] = outcome
        self._changed()

    def send(self, messages: list[bytes]) -> list[Outcome]:
        """Send all and wait for their outcomes, in their order. Raises what ended the link."""
        self._outcomes.clear()
        for number, data in enumerate(messages):
            self._client.wait(lambda: self.link.credit > 0 or self.ended, _PATIENCE, "credit")
            self.check()
            self.link.send(data, number)
        self._client.wait(lambda: len(self._outcomes) == len(messages) or self.ended, _PATIENCE, "outcomes")
        if len(self._outcomes) < len(messages):
            self.check()
        return [self._outcomes[number] for number in range(len(messages))]

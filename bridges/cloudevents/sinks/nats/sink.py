"""The NATS sink: core NATS, confirmed by the answer to a PING after the messages, or JetStream (NATS binding)."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from nats.errors import Error, FlushTimeoutError, MaxPayloadError, NoServersError
from nats.js.errors import APIError, NoStreamResponseError

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.bindings.nats import nats_binary, nats_structured
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import AccessToken, NatsSettings, PlainCredential
from bridges.cloudevents.sinks.common.concurrent_sink import ConcurrentSink
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.common.dialer import Dialer, EgressRefused, failure_reason, uri_host
from bridges.cloudevents.sinks.nats.client import ConfirmingClient, TlsNotOffered, header_block, message_frame
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor
from policies.egress import SinkRule

LOG: Final = get_logger(__name__)
Encode = Callable[[CloudEvent], tuple[dict[str, str], bytes]]
"""Returns headers and payload; raises ValueError for an event that NATS cannot carry."""
_DIGEST: Final = 16
_HEADER_FRAME: Final = len(b"NATS/1.0\r\n\r\n")
_HEADER_LINE: Final = len(b": \r\n")
_SEPARATOR: Final = "\x00"
_TOO_LATE: Final = Answer(DeliveryOutcome.FAILED, "no answer in time", reached=False)
_UNENCODABLE: Final = Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for NATS")
_UNAUTHORIZED: Final = ("authorization", "permissions violation", "authentication")


class NatsTarget(NamedTuple):
    """Where and how messages are published; `tls` None means a plaintext connection."""

    host: str
    port: int
    subject: str
    jetstream: bool
    tls: ssl.SSLContext | None
    login: PlainCredential | AccessToken | None
    timeout: float


class NatsSink(ConcurrentSink):
    """One connection per subscription; the next attempt replaces a lost one.

    Attempts at core NATS that come while others wait for the connection, or for the server's PONG, are published
    together, and confirmed by one PING: a task for each would cost more than the rest.
    """

    def __init__(
        self,
        dialer: Dialer,
        target: NatsTarget,
        encode: Encode,
        window: int,
        listener: SinkListener,
        supervisor: Supervisor,
    ) -> None:
        super().__init__(window, listener, supervisor)
        self._dialer: Final = dialer
        self._target: Final = target
        self._encode: Final = encode
        self._subject: Final = target.subject.encode()
        self._client: ConfirmingClient | None = None
        self._connecting: Final = asyncio.Lock()
        self._last_error: Exception | None = None
        """The last error, which the client hides behind `NoServersError`."""
        self._permission_errors = 0
        """Number of permission errors from the server."""
        self._waiting: list[SendAttempt] = []
        """Those that are published next."""
        self._publishing = False

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        if self._target.jetstream:
            super().send(attempt)
            return
        self._in_flight += 1
        self._waiting.append(attempt)
        if not self._publishing:
            self._publishing = True
            self._supervisor.start(self._publish_waiting(), "send-attempt")

    async def _publish_waiting(self) -> None:
        try:
            while self._waiting:
                attempts, self._waiting = self._waiting, []
                answers = await self._publish_together(attempts)
                for attempt in attempts:
                    self._finish(attempt, answers[attempt.number])
        finally:
            self._publishing = False

    async def _publish_together(self, attempts: Sequence[SendAttempt]) -> Mapping[int, Answer]:
        """Publish several attempts and wait once; the answers by number."""
        try:
            client = await self._connected()
        except (Error, OSError, ValueError) as error:
            return dict.fromkeys((attempt.number for attempt in attempts), _not_connected(error))
        refused: dict[int, Answer] = {}
        try:
            answer = await self._publish_round(client, attempts, refused)
        except (TimeoutError, FlushTimeoutError):
            answer = _TOO_LATE
        except (Error, OSError) as error:
            answer = Answer(DeliveryOutcome.FAILED, _loss_reason(error), reached=False)
        except Exception as error:  # as in `ConcurrentSink`: without an answer, nothing later would be sent
            LOG.error("attempts failed", error=type(error).__name__, exc_info=error)
            answer = Answer(DeliveryOutcome.FAILED, "the attempt failed", reached=False)
        return {attempt.number: refused.get(attempt.number, answer) for attempt in attempts}

    async def _publish_round(
        self, client: ConfirmingClient, attempts: Sequence[SendAttempt], refused: dict[int, Answer]
    ) -> Answer:
        """The answer to all but those that go to `refused`, since they cannot be published."""
        frames = []
        for attempt in attempts:
            frame = self._frame(client, attempt.events[0])
            if isinstance(frame, Answer):
                refused[attempt.number] = frame
            else:
                frames.append(frame)
        denied = self._permission_errors
        async with asyncio.timeout(self._target.timeout):
            await client.publish_frames(frames)
            await client.confirm(int(self._target.timeout) + 1)
        if self._permission_errors > denied:
            return Answer(DeliveryOutcome.CREDENTIAL, "the server does not let us publish to the subject")
        return DONE

    def _frame(self, client: ConfirmingClient, event: CloudEvent) -> bytes | Answer:
        """An event as the bytes of a message; an answer if it cannot be published."""
        try:
            headers, payload = self._encode(event)
            head = header_block(headers)
        except ValueError:
            return _UNENCODABLE
        if len(head) + len(payload) > client.max_payload:
            return _too_large(client)
        return message_frame(self._subject, head, payload)

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        """Publish an attempt to a stream, which acknowledges it."""
        (event,) = attempt.events
        try:
            headers, payload = self._encode(event)
        except ValueError:
            return _UNENCODABLE
        try:
            client = await self._connected()
        except (Error, OSError, ValueError) as error:
            return _not_connected(error)
        try:
            async with asyncio.timeout(self._target.timeout):
                return await self._publish_to_stream(client, event, payload, headers)
        except MaxPayloadError:
            return _too_large(client)
        except (TimeoutError, FlushTimeoutError):
            self._supervisor.start(self._leave_unless_alive(client), "nats-confirm")
            return _TOO_LATE
        except (Error, OSError) as error:
            return Answer(DeliveryOutcome.FAILED, _loss_reason(error), reached=False)

    async def _leave_unless_alive(self, client: ConfirmingClient) -> None:
        """The stream may be slow, or the connection dead without notice: the library would take minutes to tell."""
        with suppress(Error, OSError):
            await client.confirm(int(self._target.timeout) + 1)

    async def _publish_to_stream(
        self, client: ConfirmingClient, event: CloudEvent, payload: bytes, headers: dict[str, str]
    ) -> Answer:
        headers["Nats-Msg-Id"] = message_id(self._target.subject, event)
        if not fits(client, payload, headers):
            raise MaxPayloadError
        try:
            publish = client.jetstream().publish
            await client.unless_lost(publish(self._target.subject, payload, self._target.timeout, headers=headers))
        except NoStreamResponseError:
            return Answer(DeliveryOutcome.SINK_FAILED, "no stream takes messages of the subject")
        except APIError as error:
            return Answer(DeliveryOutcome.FAILED, f"the stream answered {error.code}", error.code)
        return DONE

    async def _connected(self) -> ConfirmingClient:
        async with self._connecting:
            if self._client is None or not self._client.usable:
                self._disconnect()
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> ConfirmingClient:
        """Connect to a checked address, and to no server that it announces; the next attempt reconnects."""
        target = self._target
        failure: Exception = EgressRefused()
        for address in await self._dialer.addresses(target.host, target.port):
            client = ConfirmingClient(self._supervisor, secured=target.tls is not None)
            try:
                async with asyncio.timeout(target.timeout):
                    await client.connect(
                        servers=[f"nats://{uri_host(address)}:{target.port}"],
                        allow_reconnect=False,
                        max_reconnect_attempts=1,  # 0 means no limit
                        reconnect_time_wait=0,
                        connect_timeout=int(target.timeout) + 1,
                        flush_timeout=target.timeout,  # otherwise forever, and a cancellation does not end it
                        error_cb=self._on_error,
                        closed_cb=client.on_closed,
                        name="scopegate",
                        no_echo=True,
                        tls=target.tls,
                        tls_hostname=target.host if target.tls is not None else None,
                        user=target.login.identifier if isinstance(target.login, PlainCredential) else None,
                        password=target.login.secret if isinstance(target.login, PlainCredential) else None,
                        token=target.login.token if isinstance(target.login, AccessToken) else None,
                    )
            except (Error, OSError) as error:
                failure = (
                    self._last_error if isinstance(error, NoServersError) and self._last_error is not None else error
                )
                continue
            return client
        raise failure

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        if "permissions violation" in str(error).lower():
            self._permission_errors += 1

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.drop()
        self._client = None

    async def _release(self) -> None:
        self._disconnect()


def _too_large(client: ConfirmingClient) -> Answer:
    return Answer(DeliveryOutcome.REFUSED, f"larger than the server's max_payload of {client.max_payload} bytes")


def fits(client: ConfirmingClient, payload: bytes, headers: Mapping[str, str]) -> bool:
    """Whether the server takes a message, and does not end the connection for it: headers count, too (HPUB)."""
    size = len(payload) + _HEADER_FRAME + sum(map(len, headers)) + sum(map(len, headers.values()))
    return size + len(headers) * _HEADER_LINE <= client.max_payload


def message_id(subject: str, event: CloudEvent) -> str:
    """The id by which JetStream drops repetitions, of an event on one subject: a stream may have several subjects."""
    name = _SEPARATOR.join((subject, *_identity(event)))
    return hashlib.blake2b(name.encode(), digest_size=_DIGEST).hexdigest()


def _identity(event: CloudEvent) -> Iterator[str]:
    """What tells an event from all others: of a batch, or another one without readable attributes, its place.

    The time belongs to it: ids of wrapped records come again, with other records, if a topic is created again.
    """
    if event.attributes:
        return (event.attributes.get(each, "") for each in ("source", "id", "time"))
    return map(str, (event.address, event.partition, event.offset, event.timestamp))


def _not_connected(error: Exception) -> Answer:
    if isinstance(error, EgressRefused):
        return Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error), reached=False)
    if any(word in str(error).lower() for word in _UNAUTHORIZED):
        return Answer(DeliveryOutcome.CREDENTIAL, "the server does not accept the login")
    reason = "the server does not offer TLS" if isinstance(error, TlsNotOffered) else failure_reason(error)
    return Answer(DeliveryOutcome.SINK_FAILED, reason, reached=False)


def _loss_reason(error: Exception) -> str:
    return failure_reason(error) if isinstance(error, OSError) else "the connection was lost"


def open_nats(
    dependencies: SinkDependencies, subscription: Subscription, rule: SinkRule, listener: SinkListener
) -> NatsSink:
    """Make the NATS sink of a subscription; it connects with the first attempt."""
    settings, sink, login = subscription.settings, subscription.sink, subscription.credential
    assert isinstance(settings, NatsSettings)
    ((host, port),) = sink.hosts
    target = NatsTarget(
        host,
        port,
        settings.subject,
        settings.jetstream,
        dependencies.certificates.context(rule.tls) if sink.scheme == "tls" else None,
        login if isinstance(login, PlainCredential | AccessToken) else None,
        subscription.delivery.timeout,
    )
    encode = nats_binary if settings.mode == "binary" else nats_structured
    return NatsSink(
        dependencies.dialer(rule), target, encode, subscription.delivery.window, listener, dependencies.supervisor
    )

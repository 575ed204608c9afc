"""The HTTP sink: binary, structured or batched events in requests (HTTP binding; Web Hooks for Event Delivery)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.common.concurrent_sink import ConcurrentSink
from bridges.cloudevents.sinks.http.answers import UNAUTHORIZED, answer_of
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.connection import NoAnswer
from bridges.cloudevents.sinks.http.login import Authorization, LoginFailed, LoginUnavailable
from bridges.cloudevents.sinks.http.pool import NotSent
from bridges.cloudevents.sinks.http.request import field_lines, head_start, request_bytes, target_of
from bridges.cloudevents.sinks.http.response import HttpAnswer
from gateway.tasks import Supervisor

Headers = list[tuple[str, str]]
Encode = Callable[[Sequence[CloudEvent]], tuple[Headers, bytes]]
"""Encodes events as the headers and the body of a request."""


class HttpTarget:
    """Where and how requests are sent; the same for all requests of a subscription."""

    __slots__ = ("authorization", "origin", "start", "timeout")

    def __init__(
        self, method: str, url: str, headers: Headers, timeout: float, authorization: Authorization | None
    ) -> None:
        """Raises ValueError if a header has a line break or NUL."""
        target = target_of(url)
        self.origin: Final = target.origin
        self.start: Final = head_start(method, target, headers)
        self.timeout: Final = timeout
        self.authorization: Final = authorization


class HttpSink(ConcurrentSink):
    """Sends each attempt as one request, with up to `connections` at a time.

    An attempt needs a task only if it has to wait before it can be sent: for a connection, or a token.
    """

    __slots__ = ("_client", "_encode", "_now", "_on_closed", "_target")

    def __init__(
        self,
        client: HttpClient,
        target: HttpTarget,
        encode: Encode,
        connections: int,
        listener: SinkListener,
        supervisor: Supervisor,
        on_closed: Callable[[], object] = lambda: None,
    ) -> None:
        """Must be called on the event loop; `on_closed` is called when the sink no longer needs its client."""
        super().__init__(connections, listener, supervisor)
        self._on_closed: Final = on_closed
        self._client: Final = client
        self._target: Final = target
        self._encode: Final = encode
        self._now: Final = client.now

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        if self._target.authorization is not None or not self._send_now(attempt):
            super().send(attempt)

    def _send_now(self, attempt: SendAttempt) -> bool:
        """Send on an idle connection; False if there is none, or the event cannot be encoded."""
        connection = self._client.pool.acquire(self._target.origin)
        if connection is None:
            return False
        try:
            request = self._request(attempt, None)
        except ValueError:
            self._client.pool.on_idle(connection)
            return False
        self._in_flight += 1
        connection.send(request, self._now() + self._target.timeout, partial(self._received, attempt))
        return True

    def _received(self, attempt: SendAttempt, outcome: HttpAnswer | NoAnswer) -> None:
        self._supervisor.attempt(partial(self._report, attempt, outcome), "push")

    def _report(self, attempt: SendAttempt, outcome: HttpAnswer | NoAnswer) -> None:
        self._in_flight -= 1
        if not self._closed:
            self._listener.on_answer(attempt, _meaning(outcome))
            self._listener.on_ready()

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        authorization = self._target.authorization
        if authorization is None:
            return await self._post(attempt, None)
        try:
            login = await authorization(False)
            answer = await self._post(attempt, login)
            if answer.status == UNAUTHORIZED and (renewed := await authorization(True)) != login:
                return await self._post(attempt, renewed)
        except LoginUnavailable as error:
            return Answer(DeliveryOutcome.SINK_FAILED, str(error))
        except LoginFailed as error:
            return Answer(DeliveryOutcome.CREDENTIAL, str(error))
        return answer

    async def _post(self, attempt: SendAttempt, login: str | None) -> Answer:
        try:
            request = self._request(attempt, login)
        except ValueError:  # the protocol cannot carry it; a repetition would fail, too
            return Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for HTTP")
        try:
            return _meaning(await self._client.send(self._target.origin, request, self._target.timeout))
        except NotSent as error:
            return Answer(DeliveryOutcome.SINK_FAILED, str(error), reached=False)
        except NoAnswer as error:
            return _meaning(error)

    def _request(self, attempt: SendAttempt, login: str | None) -> list[bytes]:
        """Encode an attempt; raises ValueError."""
        headers, body = self._encode(attempt.events)
        headers.append(("scopegate-attempt", str(attempt.earlier_attempts + 1)))
        if login is not None:
            headers.append(("authorization", login))
        return request_bytes(self._target.start, field_lines(headers), body)

    async def _release(self) -> None:
        self._on_closed()


def _meaning(outcome: HttpAnswer | NoAnswer) -> Answer:
    if isinstance(outcome, NoAnswer):  # the sink may have received the event
        return Answer(DeliveryOutcome.FAILED, str(outcome), reached=False)
    return answer_of(outcome.status, outcome.headers.get("retry-after"), time.time())

"""The HTTP sink: binary, structured or batched events in requests (HTTP binding; Web Hooks for Event Delivery)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.concurrent_sink import ConcurrentSink
from bridges.cloudevents.sinks.dialer import EgressRefused, failure_reason
from bridges.cloudevents.sinks.http.answers import UNAUTHORIZED, answer_of
from bridges.cloudevents.sinks.http.client import HttpClient, parse_url, time_limit
from bridges.cloudevents.sinks.http.login import Authorization, LoginFailed
from bridges.cloudevents.sinks.interface import SendAttempt, SinkListener
from gateway.tasks import Supervisor

Headers = list[tuple[str, str]]
Encode = Callable[[Sequence[CloudEvent]], tuple[Headers, bytes]]
"""Encodes events as the headers and the body of a request."""


class HttpTarget:
    """Where and how requests are sent; the same for all requests of a subscription."""

    __slots__ = ("authorization", "headers", "limit", "method", "url")

    def __init__(
        self, method: str, url: str, headers: Headers, timeout: float, authorization: Authorization | None
    ) -> None:
        self.method: Final = method
        self.url: Final = parse_url(url)
        self.headers: Final = headers
        self.limit: Final = time_limit(timeout)
        self.authorization: Final = authorization


class HttpSink(ConcurrentSink):
    """Sends each attempt as one request, with up to `connections` at a time."""

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
        """`ended` is called when the sink no longer needs its client."""
        super().__init__(connections, listener, supervisor)
        self._on_closed: Final = on_closed
        self._client: Final = client
        self._target: Final = target
        self._encode: Final = encode

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        authorization = self._target.authorization
        if authorization is None:
            return await self._post(attempt, None)
        try:
            login = await authorization(False)
            answer = await self._post(attempt, login)
            if answer.status == UNAUTHORIZED and (renewed := await authorization(True)) != login:
                return await self._post(attempt, renewed)
        except LoginFailed as error:
            return Answer(DeliveryOutcome.CREDENTIAL, str(error))
        return answer

    async def _post(self, attempt: SendAttempt, login: str | None) -> Answer:
        target = self._target
        try:
            headers, body = self._encode(attempt.events)
        except ValueError:  # the protocol cannot carry it; a repetition would fail, too
            return Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for HTTP")
        headers += [*target.headers, ("scopegate-attempt", str(attempt.earlier_attempts + 1))]
        headers += [] if login is None else [("authorization", login)]
        try:
            found = await self._client.request(target.method, target.url, headers, body, target.limit)
        except aiohttp.ClientConnectorCertificateError as error:
            return Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error.certificate_error), reached=False)
        except aiohttp.ClientConnectorError as error:
            return Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error.os_error), reached=False)
        except EgressRefused as error:
            return Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error), reached=False)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the sink may have received the event
            return Answer(DeliveryOutcome.FAILED, _failure(error), reached=False)
        return answer_of(found.status, found.headers.get("retry-after"), time.time())

    async def _release(self) -> None:
        self._on_closed()


def _failure(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the sink closed the connection without an answer"
    if isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return "what the sink sent is no valid answer"
    return failure_reason(error)

"""The MQTT sink: one connection for a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.bindings.mqtt import MqttMessage
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.common.concurrent_sink import BoundedSink, unexpected
from bridges.cloudevents.sinks.common.dialer import Dialer, failure_reason
from bridges.cloudevents.sinks.mqtt.connection import MqttConnection
from bridges.cloudevents.sinks.mqtt.login import ConnectRefused, MqttLogin, MqttTarget
from gateway.tasks import Supervisor

Encode = Callable[[CloudEvent], MqttMessage]
"""Raises ValueError for an event that MQTT cannot carry."""
_UNENCODABLE: Final = Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for MQTT")


class MqttSink(BoundedSink):
    """One connection per subscription; the next attempt replaces a lost one.

    An attempt needs a task only for a connection; those that come meanwhile wait for the same one.
    """

    def __init__(
        self,
        dialer: Dialer,
        target: MqttTarget,
        encode: Encode,
        window: int,
        listener: SinkListener,
        supervisor: Supervisor,
    ) -> None:
        super().__init__(window, listener, supervisor)
        self._dialer: Final = dialer
        self._target: Final = target
        self._encode: Final = encode
        self._connection: MqttConnection | None = None
        self._waiting: list[SendAttempt] = []
        """Those that are published when there is a connection."""
        self._connecting: asyncio.Task[None] | None = None

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._in_flight += 1
        if self._connection is not None and not self._connection.lost and not self._waiting:
            self._publish(self._connection, attempt)
            return
        self._waiting.append(attempt)
        if self._connecting is None or self._connecting.done():
            self._connecting = self._supervisor.start(self._publish_waiting(), "send-attempt")

    def _publish(self, connection: MqttConnection, attempt: SendAttempt) -> None:
        try:
            message = self._encode(attempt.events[0])
        except ValueError:
            asyncio.get_running_loop().call_soon(self._answered, attempt, _UNENCODABLE)
            return
        connection.publish(message, partial(self._answered, attempt))

    def _answered(self, attempt: SendAttempt, answer: Answer) -> None:
        self._supervisor.attempt(partial(self._finish, attempt, answer), "push")

    async def _publish_waiting(self) -> None:
        answer = None
        try:
            connection = self._connection = await self._connect()
        except ConnectRefused as error:
            answer = error.answer
        except (OSError, ValueError) as error:
            answer = Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error), reached=False)
        except Exception as error:
            answer = unexpected(error)
        waiting, self._waiting = self._waiting, []
        for attempt in waiting:
            if answer is None:
                self._publish(connection, attempt)
            else:
                self._answered(attempt, answer)

    async def _connect(self) -> MqttConnection:
        target = self._target
        async with asyncio.timeout(target.timeout):
            made = await self._dialer.connect(target.host, target.port)
            login = MqttLogin(target, made)
            try:
                session = await login.run()
            except BaseException:
                login.close()
                raise
        return MqttConnection(target, session)

    async def _release(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

"""The MQTT sink: one connection for a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.bindings.mqtt import MqttMessage
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.common.concurrent_sink import ConcurrentSink
from bridges.cloudevents.sinks.common.dialer import Dialer, failure_reason
from bridges.cloudevents.sinks.mqtt.connection import ConnectRefused, MqttConnection, MqttTarget
from gateway.tasks import Supervisor

Encode = Callable[[CloudEvent], MqttMessage]
"""Raises ValueError for an event that MQTT cannot carry."""


class MqttSink(ConcurrentSink):
    """One connection per subscription; the next attempt replaces a lost one."""

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
        self._window: Final = window
        self._connection: MqttConnection | None = None
        self._connecting: Final = asyncio.Lock()

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        (event,) = attempt.events
        try:
            message = self._encode(event)
        except ValueError:
            return Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for MQTT")
        try:
            connection = await self._connected()
        except ConnectRefused as error:
            return error.answer
        except (OSError, ValueError) as error:
            return Answer(DeliveryOutcome.SINK_FAILED, failure_reason(error), reached=False)
        try:
            async with asyncio.timeout(self._target.timeout):
                return await connection.publish(message)
        except TimeoutError:
            await self._drop(connection)  # its packet identifier would stay in use
            return Answer(DeliveryOutcome.FAILED, "no answer in time", reached=False)

    async def _connected(self) -> MqttConnection:
        async with self._connecting:
            if self._connection is None or self._connection.lost:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> MqttConnection:
        target = self._target
        async with asyncio.timeout(target.timeout):
            made = await self._dialer.connect(target.host, target.port)
            connection = MqttConnection(target, made, self._window)
            try:
                await connection.open()
            except BaseException:
                connection.close()
                raise
        return connection

    async def _drop(self, connection: MqttConnection) -> None:
        connection.close()
        if self._connection is connection:
            self._connection = None

    async def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()

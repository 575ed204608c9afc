"""An ordinary MQTT 5 client that reads, in a thread of its own."""

from __future__ import annotations

import queue

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.support.gateway.process import PATIENCE


class MqttReader:
    """Subscribed when it is there; `next` gives its messages."""

    def __init__(self, port: int, topic: str = "out/#") -> None:
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        ready: queue.Queue[None] = queue.Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_message = lambda client, data, message: self.messages.put(message)
        self._client.on_connect = lambda client, *rest: client.subscribe(topic, 2)
        self._client.on_subscribe = lambda *rest: ready.put(None)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        ready.get(timeout=PATIENCE)

    def next(self) -> paho.MQTTMessage:
        """The next message."""
        return self.messages.get(timeout=PATIENCE)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

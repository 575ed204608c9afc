"""Prints one message of each shape as azure-eventhub encodes it, in hexadecimal, line by line.

`python event_hubs.py pyamqp|uamqp`, in an environment with azure-eventhub and uamqp, its older transport. Event Hubs
asks for TLS and tokens, so the library's own encoder is called. The order is that of record.py.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys

from azure.eventhub import EventData
from azure.eventhub._constants import PROP_PARTITION_KEY


def events():
    """The shapes in their order."""
    yield EventData(b"x" * 100)
    yield EventData(b"x" * 1000)
    twenty = {f"name-{n:02}": f"value-{n:02}" for n in range(1, 21)}
    for properties in ({"region": "eu-1", "size": 17, "urgent": True}, twenty):
        event = EventData(b"x" * 100)
        event.properties = properties
        yield event
    event = EventData(b"x" * 100)
    event.raw_amqp_message.annotations = {PROP_PARTITION_KEY: b"customer-7"}
    yield event
    event = EventData(b"x" * 100)
    event.message_id, event.correlation_id, event.content_type = "order-00000017", "17", "application/json"
    yield event


if sys.argv[1] == "pyamqp":
    from azure.eventhub._pyamqp._encode import encode_payload
    from azure.eventhub._transport._pyamqp_transport import PyamqpTransport as Transport

    def encoded(message):
        return encode_payload(bytearray(), message)

else:
    from azure.eventhub._transport._uamqp_transport import UamqpTransport as Transport

    def encoded(message):
        return message.encode_message()


for each in events():
    print(bytes(encoded(Transport.to_outgoing_amqp_message(each.raw_amqp_message))).hex())

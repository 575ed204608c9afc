"""Events on their way out of a log: what the log said of them is read, and left behind (ES-4.6.4-3, ES-4.6.5-3; X-6).

Offset, timestamp and partitions mean nothing where an event goes; another log writes its own. The group key is a
message annotation, the producer's own, and stays. Pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message.hop import may_be_annotated
from gateway.amqp.message.sections import delivery_annotations, edit_map, splice, walk
from gateway.errors import AmqpError

PARTITION: Final = "event-streams-partition"
GROUP: Final = "event-streams-consumer-group"
LINK_PROPERTIES: Final = frozenset((PARTITION, GROUP, "event-streams-epoch"))
"""What links and nodes of event logs say to each other in link properties."""
CAPABILITY: Final = "AMQP_EVENT_STREAMS_V1_0"
_OFFSET: Final = "event-streams-offset"
_TIMESTAMP: Final = "event-streams-timestamp"
_SOURCE: Final = "event-streams-source-partition"
_ASSOCIATED: Final = "event-streams-associated-partitions-changed"
_ASSIGNED: Final = "event-streams-assigned-partitions-changed"
"""ES 4.6.5 has both spellings."""
_TARGET: Final = "event-streams-target-partition"
_TIMESTAMP_TYPE: Final = "x-opt-kafka-timestamp-type"
_OF_THE_LOG: Final = (_OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE, _SOURCE, _ASSOCIATED, _ASSIGNED)


class Event(NamedTuple):
    """A message without what its log said of it, and that: the timestamp in milliseconds, the rest as it was."""

    data: bytes
    offset: str | None = None
    partition: str | None = None
    timestamp: int | None = None


def forwarded(data: bytes) -> bytes:
    """An event without what its log said of it there."""
    return read_event(data).data


def read_event(data: bytes, *, aim: bool = False) -> Event:
    """Take an event from its log; `aim`: it names its partition as the one it wants to get to (ES 4.6.6)."""
    if not may_be_annotated(data):
        return Event(data)
    try:
        layout = walk(data)
        if layout.da == layout.ma:
            return Event(data)
        said = delivery_annotations(data, layout)
        partition = _text(said.get(_SOURCE))
        put = {_TARGET: encode(Symbol(partition))} if aim and partition is not None else {}
        left = edit_map(data[layout.da : layout.ma], drop=_OF_THE_LOG, put=put)
        time = said.get(_TIMESTAMP)
        return Event(
            splice(data, layout, da=left), _text(said.get(_OFFSET)), partition, time if isinstance(time, int) else None
        )
    except AmqpError:
        return Event(data)  # no message: the node says what is wrong with it


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

"""A scripted event log behind a connector, as a bridge reads it: its links, its events and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.codec.types import Uint
from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.crossing import Inbox
from tests.support.gateway.far import Far

STREAMS = "AMQP_EVENT_STREAMS_V1_0"
FILTER = "amqp:event-streams-delivery-annotations-filter"
PARTITION, GROUP = "event-streams-partition", "event-streams-consumer-group"
OFFSET = "event-streams-offset"
Fars = Callable[..., Far]


def accept_receiver(far: Far, **answer: Any) -> tuple[Frame, int]:
    """Wait for the gateway's receiver and accept it; return its attach and our handle."""
    attach = far.attach()
    assert attach.role is RECEIVER
    assert attach.source["address"] == "log"
    return attach, far.agree(attach, **{"source": frames.source("log"), **answer})


def lasting(**more: Any) -> Any:
    """The source of an answer that says that the terminus stays."""
    return frames.source("log", durable=Uint(2), expiry_policy=Symbol("never"), **more)


def event(number: int, partition: str | None = None, at: int = 1_700_000_000_000, **more: Any) -> bytes:
    """An event as a log sends it: offsets of its own kind, that nobody could compute."""
    said = {OFFSET: Symbol(offset(number)), "event-streams-timestamp": Timestamp(at)}
    if partition is not None:
        said["event-streams-source-partition"] = Symbol(partition)
    return message(b"%d" % number, da={**said, **more.pop("da", {})}, **more)


def offset(number: int) -> str:
    return f"log-{'abcdefghijklmnop'[number]}"


def position(attach: Frame) -> str | None:
    """The offset after which events are asked for."""
    found = attach.source["filter"]
    return None if found is None or FILTER not in found else str(found[FILTER].value[OFFSET])


def credit(far: Far, attach: Frame) -> int:
    return int(far.peer.until("flow", handle=attach.handle).link_credit)


def outcome(far: Far) -> Any:
    """What the log hears of its delivery."""
    frame = far.peer.until("disposition", role=RECEIVER)
    assert frame.first == far.peer.last_delivery
    return frame.state


def body(data: bytes) -> int:
    return int(sections(data)["data"])


def moved(far: Far, attach: Frame, handle: int, inbox: Inbox, *numbers: int) -> None:
    """Events go from the log to the receiver, each accepted."""
    for number in numbers:
        far.peer.transfer(event(number), handle)
        assert body(inbox.take()) == number
        assert outcome(far).matches("accepted")

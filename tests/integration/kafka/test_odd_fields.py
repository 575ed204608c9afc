"""Records in a topic whose AMQP header and properties have fields of wrong types and ranges."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.types import Byte, Int, Long, Symbol, Timestamp, Uint, Ulong
from tests.support.amqp import frames
from tests.support.amqp.links import connected, sending
from tests.support.amqp.members import since
from tests.support.amqp.messages import message, section
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways

ODD: tuple[Any, ...] = (
    Ulong(2**32), Ulong(2**64 - 1), Long(-1), Long(2**63 - 1), Int(-5), Byte(-1), Timestamp(2**62), True, 1e300,
    float("nan"), "soon", Symbol("x"), b"\0", [1], {"a": 1},
)  # fmt: skip
HEADER = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
TIMES = {8: "absolute-expiry-time", 9: "creation-time", 11: "group-sequence"}
"""Fields of the properties by their index."""


def odd_messages() -> list[bytes]:
    """A message for every field and wrong value, and some whose header is not a list."""
    places = [(0x70, index) for index in range(len(HEADER))] + [(0x73, index) for index in TIMES]
    found = [section(code, [*[None] * index, value]) + message(b"odd") for value in ODD for code, index in places]
    found.append(section(0x70, [None, None, Uint(5), None, None, "a sixth"]) + message(b"odd"))
    found.append(b"\x00\x53\x70\xc0\x02\x01\xff" + message(b"odd"))
    found.append(b"\x00\x53\x70\xc0\x03\x05\x70\x00" + message(b"odd"))
    found.append(b"\x00\x53\x73\xc0\x02\x01\xff" + message(b"odd"))
    return found


@pytest.mark.parametrize("drop_expired", [False, True])
def test_readers_of_a_topic_go_on_behind_odd_fields(start_gateway: Gateways, drop_expired: bool) -> None:
    document = Document()
    document.kafka("embedded", topics={"log": 1})
    document.scope()["addresses"][-1]["drop_expired"] = drop_expired
    gateway = start_gateway(document.text)
    count = 0
    with sending(document.edge, "events/log") as sender:
        for each in odd_messages():
            sender.transfer(each)
            outcome = sender.until("disposition", first=sender.last_delivery).state
            assert outcome.name in ("accepted", "rejected"), each
            count += outcome.name == "accepted"
        sender.transfer(message(b"last"))
        sender.until("disposition", state="accepted")
    with connected(document.edge) as receiver:
        source = frames.source("events/log", filter=since("@earliest"))
        receiver.attach_receiver(None, source=source)
        receiver.flow(0, link_credit=10_000)
        sent_again = 0
        while True:
            transfer = receiver.until("transfer")
            if transfer.payload.endswith(message(b"last")):
                break
            if sent_again < count:
                sent_again += 1
                state = frames.composite("modified", delivery_failed=True)
                receiver.disposition(transfer.delivery_id, state)
            else:
                receiver.disposition(transfer.delivery_id, "accepted")
    assert gateway.metrics().get("scopegate_task_failures_total", 0) == 0

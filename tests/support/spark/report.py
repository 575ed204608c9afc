"""Handmade traffic for the report, so that its results are known."""

from __future__ import annotations

from typing import Any

from bridges.spark.columns.rows import EventRow
from tests.support.amqp.messages import message

START = 1_795_262_400_000
"""2026-11-21, 12:00:00 UTC."""
HOSTILE = "chat/<script>alert('$x^2$')</script>&\""
"""An address as a client may choose it."""


def events() -> list[EventRow]:
    """600 events of ten minutes in two partitions; every tenth is red, and `k0` is the key of every second one."""
    found = []
    for number in range(600):
        key = b"k0" if number % 2 == 0 else b"k%d" % (number % 7 + 1)
        data = message(b"x" * 100, app={"color": "red" if number % 10 == 0 else "blue"})
        found.append(EventRow(number % 2, number // 2, START + 1000 * number, key, data))
    return found


def row(seq: int, kind: str, **fields: Any) -> dict[str, Any]:
    """A row about ten seconds of the journal."""
    at = {"from_ms": START + 10_000 * seq, "to_ms": START + 10_000 * (seq + 1)}
    return {"v": 1, "kind": kind, "gateway": "gw", "process": "p", "seq": seq, **at, **fields}


LINK = {"scope": "edge", "user": "app", "decision": "allow", "filters": []}
TOPIC = {"route": "kafka", "address": "events/orders", "to_cluster": "main", "to_topic": "orders"}
FILTERS = ["amqp:event-streams-delivery-annotations-filter", "amqp:sql-filter"]
BILLING = {**LINK, **TOPIC, "action": "receive", "user": "billing", "group": "billing"}
AUDIT = {**LINK, **TOPIC, "action": "receive", "user": "audit", "filters": FILTERS}


def journal() -> list[dict[str, Any]]:
    """Thirty times ten seconds: 20 events in, 20 out to a group, every tenth to a filter that comes later and later."""
    found = []
    for step in range(30):
        sent = {"attached": 0, "messages": 20, "bytes": 2000, "outcomes": {"accepted": 20}, "refused": {}}
        got = {"attached": 0, "bytes": 0, "refused": {}}
        place = 20 * (step + 1)
        found += [
            row(step, "link", **LINK, **TOPIC, action="send", **sent),
            row(step, "link", **BILLING, **got, messages=20, outcomes={"accepted": 19, "released": 1}),
            row(step, "link", **AUDIT, **got, messages=2, outcomes={"accepted": 2}),
            row(step, "reading", **BILLING, links=1, scanned=20, matched=20, older=0, latency={"1": 10, "5": 10},
                slowest_ms=4, partitions=[{"partition": 0, "position": place, "end": place}]),
            row(step, "reading", **AUDIT, links=1, scanned=20, matched=2, older=1,
                latency={"1000" if step else "odd": 1}, slowest_ms=900,
                partitions=[{"partition": 0, "position": place - step, "end": place}]),
        ]  # fmt: skip
    found += [
        row(30, "link", **{**LINK, "decision": "deny"}, action="send", address=HOSTILE, route="none", attached=3,
            condition="amqp:not-found", refused_by="policy", messages=0, bytes=0, outcomes={}, refused={}),
        row(31, "link", **LINK, action="send", route="anonymous", attached=1, messages=5, bytes=50,
            outcomes={"accepted": 4, "rejected": 1}, refused={"amqp:not-found": 1}),
        row(31, "link", **LINK, action="send", address="chat/room", route="direct", attached=1, messages=4, bytes=40,
            outcomes={}, refused={}),
        row(31, "link", **LINK, action="receive", address="events/orders/$info", route="service", attached=9,
            messages=9, bytes=90, outcomes={"accepted": 9}, refused={}),
        row(32, "crossing", scope="edge", replies="auto", to_scope="core", to_address="services/echo", announced=True,
            result="annotated", why="the receiver supports response annotations", messages=7, bytes=70, refused={}),
        row(32, "push", scope="edge", manager="orders", user="app", protocol="HTTP", sink="https://sink.example:443",
            streams=["events/orders"], subscriptions=2, events={"matched": 9, "delivered": 7}),
        row(33, "lost", count=3, causes={"buffer": 3}),
    ]  # fmt: skip
    return found

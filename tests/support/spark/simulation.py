"""A handmade policy and its candidate, with known results, and journal rows of traffic under them."""

from __future__ import annotations

from typing import Any

NOW = """
keys: {active: one, ring: {one: {env: KEY}}}
kafka: {main: {bootstrap: "127.0.0.1:9092"}}
scopes:
  edge:
    anonymous_relay: true
    addresses:
      - {match: "svc/{name}", relay: core, address: "services/{name}"}
      - {match: "far/{name}", relay: core, address: "away/{name}"}
      - {match: "orders/{topic}", kafka: main, topic: "{topic}"}
      - {match: "chat/**", direct: balanced}
      - {match: "home/**", direct: balanced}
    access:
      - {who: [app], may: [send, receive], on: "**"}
      - {who: [guest], may: [receive], on: "chat/**"}
  core:
    connect: [{name: broker, to: "amqp://127.0.0.1:5673"}]
    addresses:
      - {match: "services/**", direct: balanced}
      - {match: "away/**", relay: broker}
    access: [{who: [backend], may: [receive], on: "services/**"}]
"""

CHANGES = (
    # guests may read orders too, and app may no longer write to chat/closed
    ('- {who: [guest], may: [receive], on: "chat/**"}',
     '- {who: [guest], may: [receive], on: ["chat/**", "orders/*"]}'),
    ('- {who: [app], may: [send, receive], on: "**"}',
     '- {who: [app], may: [send, receive], on: ["svc/*", "far/*", "orders/*", "chat/room", "home/**"]}'),
    # orders go to another topic, services get rewritten requests, far ones cross unchanged
    ('topic: "{topic}"', 'topic: "new-{topic}"'),
    ('relay: core, address: "services/{name}"}', 'relay: core, address: "services/{name}", replies: rewrite}'),
    ('relay: core, address: "away/{name}"}', 'relay: core, address: "away/{name}", replies: none}'),
    # no anonymous terminus, and filters of unknown types are refused
    ("anonymous_relay: true", "anonymous_relay: false"),
    ("kafka: {main", "filters: {unknown: refuse}\nkafka: {main"),
)  # fmt: skip


def candidate() -> str:
    """The candidate: `NOW` with all `CHANGES`."""
    text = NOW
    for old, new in CHANGES:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def link(seq: int, **fields: Any) -> dict[str, Any]:
    """A row about links; 10 messages of 1000 bytes unless told otherwise."""
    base = {"v": 1, "kind": "link", "gateway": "gw", "process": "p", "seq": seq, "from_ms": 1000 * seq}
    row = {**base, "to_ms": 1000 * seq + 999, "scope": "edge", "user": "app", "action": "send", "decision": "allow"}
    return {**row, "route": "direct", "filters": [], "attached": 1, "messages": 10, "bytes": 1000, **fields}


JOURNAL = (
    link(1, address="chat/room"),
    link(2, address="chat/room", attached=2),
    link(3, address="chat/closed"),
    link(4, address="orders/a", route="kafka"),
    link(5, address="svc/x", route="direct"),
    link(6, address="far/y", route="relay"),
    link(7, route="anonymous"),
    link(8, address="orders/a", user="guest", action="receive", decision="deny", condition="amqp:unauthorized-access",
         refused_by="policy", messages=0, bytes=0),
    link(9, address="chat/room", user="guest", action="receive", filters=["acme:unknown"]),
    link(10, address="nowhere", decision="deny", condition="amqp:not-found", refused_by="policy", messages=0),
    link(11, address="home/1", user=None, route="direct"),
    {"v": 1, "kind": "crossing", "gateway": "gw", "process": "p", "seq": 12, "from_ms": 1, "to_ms": 2, "scope": "edge",
     "replies": "auto", "to_scope": "core", "to_address": "services/x", "announced": True, "believed": True,
     "result": "annotated",
     "why": "the receiver supports response annotations", "messages": 10, "bytes": 1000},
    {"v": 1, "kind": "message", "gateway": "gw", "process": "p", "seq": 13, "from_ms": 5000, "to_ms": 5000,
     "scope": "edge", "user": "app", "action": "send", "address": "svc/x", "decision": "allow", "route": "direct",
     "filters": [], "size": 100, "settled": False, "annotated": False, "message_reply_to": "home/1"},
    {"v": 1, "kind": "lost", "gateway": "gw", "process": "p", "seq": 14, "from_ms": 6000, "to_ms": 7000, "count": 3,
     "causes": {"buffer": 3}},
)  # fmt: skip

KNOWN = {
    ("app", "send", "chat/room"): (),
    ("app", "send", "chat/closed"): ("denied",),
    ("app", "send", "orders/a"): ("routed",),
    ("app", "send", "svc/x"): ("rewritten",),
    ("app", "send", "far/y"): ("unchanged",),
    ("app", "send", None): ("denied",),
    ("guest", "receive", "orders/a"): ("allowed",),
    ("guest", "receive", "chat/room"): ("filters-unknown",),
    ("app", "send", "nowhere"): (),
    (None, "send", "home/1"): (),
}
"""What is different for each kind of link in the journal."""

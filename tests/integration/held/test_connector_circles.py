"""What links through a connector leave when they end is freed at once, by the count of its references alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway import tasks
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.link import Link
from gateway.links.internal_link import InternalLink
from gateway.nodes.direct.node import DirectNode
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.in_process import served
from tests.support.gateway.process import PATIENCE
from tests.support.held.circles import ENDS, Act, Circles, anonymous, answered, pair, receiver, refused

WATCHED = Engine, Link, DirectNode, InternalLink


def request(peer: Peer) -> None:
    """A request to another scope, behind its connector, and its response."""
    peer.attach("replies", RECEIVER, source=frames.source(None, dynamic=True))
    reply = peer.until("attach").source["address"]
    peer.flow(0, link_credit=10)
    peer.attach_sender("far/echo", 1)
    peer.until("flow")
    peer.transfer(message(reply_to=reply, message_id="m"), 1).until("transfer")


def drained(peer: Peer) -> None:
    receiver(peer, "queues/x")
    peer.flow(0, link_credit=10, drain=True).until("flow")


KINDS: dict[str, Act] = {
    "sender": lambda peer: peer.attach_sender("queues/x"),
    "drained receiver": drained,
    "pair": lambda peer: pair(peer, "queues/pair"),
    "pair with an outcome": lambda peer: answered(peer, "queues/pair"),
    "receiver from another scope": lambda peer: receiver(peer, "far/x"),
    "request": request,
    "anonymous": lambda peer: anonymous(peer, "queues/found"),
    "refused": lambda peer: refused(peer, "queues/nothing/x"),
}


async def test_no_kind_of_link_stays_in_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_gateway: Gateways, uncollected: None
) -> None:
    monkeypatch.setenv("SCOPEGATE_TEST_KEY", "0" * 64)
    far = Document()
    far.scope()["addresses"] = [
        {"match": "queues/nothing/**", "redirect": "amqp://127.0.0.1:1"},
        {"match": "echo", "service": "echo"},
        {"match": "**", "direct": "balanced"},
    ]
    await asyncio.to_thread(start_gateway, far.text)
    document = Document()
    document.connector(far.edge)
    document.relay()
    document.connector(far.edge, scope="core", name="other")
    document.scope()["addresses"].append({"match": "far/{name}", "relay": "core", "address": "far/{name}"})
    document.scope("core")["addresses"].insert(0, {"match": "far/{name}", "relay": "other", "address": "{name}"})
    file = tmp_path / "policy.json"
    file.write_text(document.text)
    async with served(file, monkeypatch) as start:
        gateway = await start()
        await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
        await tasks.until(lambda: gateway.service.readiness.report()[0], PATIENCE)
        circles = Circles(gateway, lambda: Peer(gateway.port), WATCHED)
        left = {(kind, end): await circles.stays(KINDS[kind], end) for kind in KINDS for end in ENDS}
    assert {which: found for which, found in left.items() if found} == {}

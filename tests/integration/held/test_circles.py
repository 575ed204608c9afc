"""What connections and links leave when they end is freed at once, by the count of its references alone."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from websockets.server import ServerProtocol

from gateway import tasks
from gateway.amqp.codec.types import Described, Symbol
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.link import Link
from gateway.amqp.transport.websocket import WebSocketProtocol, WebSocketTransport
from gateway.nodes.direct.node import DirectNode
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.browser.web_socket import web_socket_peer
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import served
from tests.support.gateway.process import PATIENCE
from tests.support.held.circles import ENDS, Act, Circles, anonymous, answered, pair, receiver, refused
from tests.support.servers.certs import Authority

WATCHED = Engine, Link, DirectNode, WebSocketProtocol, WebSocketTransport, ServerProtocol


def event(peer: Peer) -> None:
    peer.attach_sender("events/t")
    peer.until("flow")
    peer.transfer(message()).until("disposition")


def dynamic(peer: Peer) -> None:
    peer.attach("dynamic", RECEIVER, source=frames.source(None, dynamic=True)).until("attach")


def filtered(peer: Peer) -> None:
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = 1")
    receiver(peer, "chat/x", source=frames.source("chat/x", filter={Symbol("s"): selector}))


def coordinator(peer: Peer) -> None:
    peer.attach("coordinator", SENDER, target=frames.composite("coordinator")).until("attach")


KINDS: dict[str, Act] = {
    "none": lambda peer: None,
    "direct sender": lambda peer: peer.attach_sender("chat/x"),
    "direct receiver": lambda peer: receiver(peer, "chat/x"),
    "direct receiver with a filter": filtered,
    "pair": lambda peer: pair(peer, "chat/pair"),
    "pair with an outcome": lambda peer: answered(peer, "chat/pair"),
    "sender to another scope": lambda peer: peer.attach_sender("svc/a"),
    "receiver from another scope": lambda peer: receiver(peer, "svc/a"),
    "sender of events": event,
    "receiver of events": lambda peer: receiver(peer, "events/t"),
    "anonymous": lambda peer: anonymous(peer, "chat/found"),
    "dynamic": dynamic,
    "coordinator": coordinator,
    "refused": lambda peer: refused(peer, "nothing/x"),
}


async def test_no_kind_of_link_stays_in_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncollected: None
) -> None:
    monkeypatch.setenv("SCOPEGATE_TEST_KEY", "0" * 64)
    document = Document()
    document.relay()
    document.kafka("embedded", topics={"t": 1})
    file = tmp_path / "policy.json"
    file.write_text(document.text)
    async with served(file, monkeypatch) as start:
        gateway = await start()
        await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
        circles = Circles(gateway, lambda: Peer(document.edge), WATCHED)
        left = {(kind, end): await circles.stays(KINDS[kind], end) for kind in KINDS for end in ENDS}
    assert {which: found for which, found in left.items() if found} == {}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("websocket", [False, True], ids=["tcp", "websocket"])
async def test_no_kind_of_connection_stays_in_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncollected: None, websocket: bool, tls: bool
) -> None:
    authority, document = Authority(tmp_path), Document()
    server, trust = authority.server(), ssl.create_default_context(cafile=authority.ca) if tls else None
    listener = document.scope()["listen"][0]
    listener |= {"tls": {"cert": str(server.cert), "key": str(server.key)}} if tls else {}
    listener |= {"websocket": "/amqp"} if websocket else {}
    file = tmp_path / "policy.json"
    file.write_text(document.text)

    def connect() -> Peer:
        return web_socket_peer(document.edge, "/amqp", trust) if websocket else Peer(document.edge, tls=trust)

    async with served(file, monkeypatch) as start:
        gateway = await start()
        await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
        left = {end: await Circles(gateway, connect, WATCHED).stays(KINDS["pair"], end) for end in ENDS}
    assert {which: found for which, found in left.items() if found} == {}

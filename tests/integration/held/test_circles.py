"""What connections and links leave when they end is freed at once, by the count of its references alone."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import tasks
from gateway.amqp.codec.types import Described, Symbol
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.link import Link
from gateway.nodes.direct.node import DirectNode
from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import InProcessGateway, served
from tests.support.gateway.process import PATIENCE, wait_until

WATCHED = Engine, Link, DirectNode


def receiver(peer: Peer, address: str, **fields: Any) -> None:
    peer.attach_receiver(address, **fields)
    peer.flow(0, link_credit=10)


def pair(peer: Peer) -> None:
    """A message that has no outcome."""
    receiver(peer, "chat/pair")
    peer.attach_sender("chat/pair", 1)
    peer.until("flow")
    peer.transfer(message(), 1)
    peer.until("transfer")


def answered(peer: Peer) -> None:
    pair(peer)
    peer.disposition(0, "accepted").until("disposition")


def event(peer: Peer) -> None:
    peer.attach_sender("events/t")
    peer.until("flow")
    peer.transfer(message()).until("disposition")


def anonymous(peer: Peer) -> None:
    """A link with a destination."""
    peer.attach_receiver("chat/found", 1)
    peer.flow(1, link_credit=10)
    peer.attach_sender(None)
    peer.until("flow")
    peer.transfer(message(to="chat/found")).until("transfer")


def dynamic(peer: Peer) -> None:
    peer.attach("dynamic", RECEIVER, source=frames.source(None, dynamic=True)).until("attach")


def filtered(peer: Peer) -> None:
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = 1")
    receiver(peer, "chat/x", source=frames.source("chat/x", filter={Symbol("s"): selector}))


def coordinator(peer: Peer) -> None:
    peer.attach("coordinator", SENDER, target=frames.composite("coordinator")).until("attach")


def refused(peer: Peer) -> None:
    peer.attach("refused", SENDER, target=frames.target("nothing/x")).until("detach")


def detach(peer: Peer) -> None:
    if any("attach" in line for line in peer.transcript):
        peer.detach(0)
    peer.close().until("close")


KINDS: dict[str, Callable[[Peer], object]] = {
    "none": lambda peer: None,
    "direct sender": lambda peer: peer.attach_sender("chat/x"),
    "direct receiver": lambda peer: receiver(peer, "chat/x"),
    "direct receiver with a filter": filtered,
    "pair": pair,
    "pair with an outcome": answered,
    "sender to another scope": lambda peer: peer.attach_sender("svc/a"),
    "receiver from another scope": lambda peer: receiver(peer, "svc/a"),
    "sender of events": event,
    "receiver of events": lambda peer: receiver(peer, "events/t"),
    "anonymous": anonymous,
    "dynamic": dynamic,
    "coordinator": coordinator,
    "refused": refused,
}
ENDS: dict[str, Callable[[Peer], object]] = {
    "lost": lambda peer: None,
    "close": lambda peer: peer.close().until("close"),
    "end": lambda peer: peer.end().until("end"),
    "detach": lambda peer: detach(peer),
}


def alive() -> Counter[str]:
    found = (each for each in gc.get_objects() if isinstance(each, WATCHED))
    return Counter(type(each).__name__ for each in found)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def used(port: int, kind: str, end: str) -> None:
    with Peer(port) as peer:
        peer.start()
        before = alive()["Link"]
        KINDS[kind](peer)
        ENDS[end](peer)
        if end == "end":
            wait_until(lambda: alive()["Link"] <= before, f"the end of the links of kind {kind}", 5)


async def stays(gateway: InProcessGateway, kind: str, end: str) -> Counter[str]:
    """What a link of a kind leaves when it ends in a way."""
    await asyncio.to_thread(used, gateway.port, kind, end)  # what is made once
    await tasks.until(lambda: not any(gateway.service.connections()), PATIENCE)
    before = alive()
    await asyncio.to_thread(used, gateway.port, kind, end)
    await tasks.until(lambda: not alive() - before, 2)
    return alive() - before


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
        left = {(kind, end): await stays(gateway, kind, end) for kind in KINDS for end in ENDS}
    assert {which: found for which, found in left.items() if found} == {}

"""Both ends of a scope boundary as scripted peers: requester, responder, and the bytes that each received."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports
from tests.support.gateway.warm import shortened

SUPPORTED = "response-address-supported"
KEY = "bm90LWEtc2VjcmV0LWJ1dC1uZXZlci1pbi1hLWxvZy0"
"""The signing secret of the tests' gateways, as an operator would give it."""

POLICY = """
gateway: {{id: {id}, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}, expiry: {expiry}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}"}}
      - {{match: "cookie/{{name}}", relay: core, address: "services/{{name}}", replies: cookie}}
      - {{match: "rewrite/{{name}}", relay: core, address: "services/{{name}}", replies: rewrite}}
      - {{match: "plain/{{name}}", relay: core, address: "services/{{name}}", replies: none}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "same", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses:
      - {{match: "services/**", direct: balanced}}
      - {{match: "same", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
_numbers = itertools.count(1)


def connected(port: int, **fields: Any) -> Peer:
    """Return a peer that is nobody, connected and with a session; it offers response annotations (RA 2.1)."""
    peer = Peer(port)
    peer.start(**{"offered_capabilities": ["RESPONSE_ANNOTATIONS_V1_0"], **fields})
    return peer


class Inbox:
    """A receiving link; `capable` announces that its target understands response annotations."""

    def __init__(
        self,
        peer: Peer | int,
        address: str | None,
        handle: int = 0,
        *,
        capable: bool = False,
        credit: int = 100,
        **fields: Any,
    ) -> None:
        self.peer = connected(peer) if isinstance(peer, int) else peer
        self.handle = handle
        self.received = 0
        target = frames.target("here", capabilities=[SUPPORTED] if capable else None)
        self.attach = self.peer.attach_receiver(address, handle, **{"target": target, **fields})
        if credit:
            self.peer.flow(handle, link_credit=credit, delivery_count=0)

    @classmethod
    def adopt(cls, peer: Peer, handle: int = 0) -> Self:
        """Return the inbox of a link that is attached already."""
        inbox = cls.__new__(cls)
        inbox.peer, inbox.handle, inbox.received = peer, handle, 0
        return inbox

    def transfer(self) -> Frame:
        """Return the next transfer, without an outcome; the peer may have links that send, whose outcomes are kept."""
        transfer = self.peer.until("transfer", keep="disposition", handle=self.handle)
        self.received += 1
        return transfer

    def take(self, outcome: Any = "accepted") -> bytes:
        """Return the next message and give it an outcome."""
        transfer = self.transfer()
        self.peer.disposition(transfer.delivery_id, outcome)
        return bytes(transfer.payload)

    def empty(self) -> bool:
        """Tell that nothing has come: the answer to a drain is all there is to read."""
        self.peer.flow(self.handle, link_credit=1, delivery_count=self.received, drain=True)
        while (frame := self.peer.receive()) is not None and frame.kind != "transfer":
            if frame.kind == "flow" and frame.drain:
                self.received = frame.delivery_count
                self.peer.flow(self.handle, link_credit=100, delivery_count=self.received)
                return True
        return False


class Outbox:
    """A sending link; `send` returns what became of the message: an outcome, or the detach that followed."""

    def __init__(self, peer: Peer | int, address: str | None, handle: int = 0, **fields: Any) -> None:
        self.peer = connected(peer) if isinstance(peer, int) else peer
        self.handle = handle
        self.outcomes: dict[int, Any] = {}
        self.attach = self.peer.attach_sender(address, handle, **fields)

    @classmethod
    def adopt(cls, peer: Peer, handle: int = 0) -> Self:
        """Return the outbox of a link that is attached already."""
        outbox = cls.__new__(cls)
        outbox.peer, outbox.handle, outbox.outcomes = peer, handle, {}
        return outbox

    def credit(self) -> int:
        """Wait for credit and return it."""
        return int(self.peer.until("flow", handle=self.handle).link_credit)

    def post(self, payload: bytes, **fields: Any) -> int:
        """Send without waiting for anything; return the delivery id."""
        self.peer.transfer(payload, self.handle, **fields)
        return self.peer.last_delivery

    def outcome(self, delivery: int) -> Any:
        """Wait for the outcome of a delivery; outcomes of other deliveries are stored for later calls."""
        while delivery not in self.outcomes:
            # Not of a message that this peer receives: such a message may come first.
            frame = self.peer.until("disposition", keep="transfer", role=RECEIVER)
            last = frame.first if frame.last is None else frame.last
            self.outcomes.update(dict.fromkeys(range(frame.first, last + 1), frame.state))
        return self.outcomes.pop(delivery)

    def send(self, payload: bytes, **fields: Any) -> Any:
        """Send and wait for the outcome."""
        return self.outcome(self.post(payload, **fields))

    def send_with_credit(self, payload: bytes) -> Any:
        """Wait for credit, send, and wait for the outcome."""
        self.credit()
        return self.send(payload)

    def send_and_accept(self, payload: bytes, inbox: Inbox) -> Any:
        """Send, let the inbox accept, and return the outcome."""
        delivery = self.post(payload)
        inbox.take()
        return self.outcome(delivery)

    def fails(self, payload: bytes, **fields: Any) -> Frame:
        """Send and wait for the detach that it brings."""
        self.post(payload, **fields)
        return self.peer.until("detach", handle=self.handle, closed=True)


def hop_annotations(data: bytes) -> dict[str, Any]:
    """Return the delivery annotations of a message by name."""
    found = sections(data).get("delivery_annotations", {})
    return {str(key): value for key, value in found.items()}


def cookie_of(data: bytes) -> bytes:
    """Return the cookie of an annotated request."""
    cookie = hop_annotations(data)["response-address-cookie"]
    assert type(cookie) is bytes
    return cookie


def answer(cookie: object, body: bytes = b"answer", **fields: Any) -> bytes:
    """Return a response that carries a cookie."""
    return message(body, da={"address-cookie": cookie}, **fields)


class Place(NamedTuple):
    """A running gateway and its two listeners."""

    edge: int
    core: int
    gateway: Gateway


def start(
    gateways: Gateways,
    name: str = "gw-boundary",
    *,
    expiry: str = "5m",
    key: str = KEY,
    constants: Mapping[str, float] = {},
) -> Place:
    """Start a gateway between two scopes; those with the same key understand each other's cookies.

    `constants`: see `shortened`.
    """
    edge, core, http = ports(3)
    policy = POLICY.format(id=name, edge=edge, core=core, http=http, expiry=expiry)
    return Place(edge, core, gateways(policy, env={"SCOPEGATE_TEST_KEY": key, **shortened(constants)}))


class CrossingPair(NamedTuple):
    """A service in core, and in edge its client with a place for responses."""

    service: Inbox
    client: Outbox
    answers: Inbox
    reply_to: str


def pair(place: Place, route: str = "svc", *, capable: bool) -> CrossingPair:
    """Attach a service and its client under names of their own."""
    name = f"{next(_numbers)}"
    service = Inbox(place.core, f"services/{name}", capable=capable)
    answers = Inbox(place.edge, f"q/{name}")
    client = Outbox(place.edge, f"{route}/{name}")
    client.credit()
    return CrossingPair(service, client, answers, f"q/{name}")

"""A scripted peer that speaks as clients of Event Hubs do, frame by frame."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from gateway.amqp.codec.codec import Long, Symbol, encode
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from tests.support.amqp import frames
from tests.support.amqp.messages import properties_list
from tests.support.amqp.messages import sections as parts
from tests.support.amqp.peer import Peer

BATCH = 0x80013700
FRAME = 60_000
"""Bytes of a message in one frame."""


class ManagementAnswer(NamedTuple):
    """The answer to a request."""

    status: int
    description: str
    body: Any


class HubPeer(Peer):
    """A peer whose frames must have all of their fields; `request` uses `$cbs` or `$management`."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.start(max_frame_size=8192)
        self._handles = itertools.count(10)
        self._requests: dict[str, int] = {}

    def receive(self, seconds: float | None = None) -> frames.Frame | None:
        frame = super().receive(seconds)
        if frame is not None and frame.kind in frames.PERFORMATIVES and not frame.kind.startswith("sasl_"):
            fields = frames.PERFORMATIVES[frame.kind][1].split()
            assert len(frame.values) == len(fields), f"{frame.kind} has {len(frame.values)} fields"
            assert len(frame.raw) <= 8192
        return frame

    def request(self, node: str, body: Value = None, **properties: Value) -> ManagementAnswer:
        """Send a request and return its answer; attaches at the first one."""
        if node not in self._requests:
            self._requests[node] = handle = next(self._handles)
            receiver = next(self._handles)
            self.attach_receiver(node, receiver, name=f"answers-{node}")
            self.flow(receiver, link_credit=100)
            self.attach_sender(node, handle, name=f"requests-{node}")
        head = properties_list({"message_id": f"id-{next(self._handles)}"})
        whole = (
            sections.section(sections.PROPERTIES, head),
            sections.section(sections.APPLICATION_PROPERTIES, properties),
            sections.section(sections.AMQP_VALUE, body),
        )
        self.transfer(b"".join(whole), self._requests[node])
        answer = self.until("transfer")
        while answer.more:
            answer = self.until("transfer")
        assert answer.settled, "some clients never settle"
        got = parts(answer.payload)
        named = got["application_properties"]
        assert named["statusDescription"] == named["status-description"]
        return ManagementAnswer(named["status-code"], named["status-description"], got.get("value"))

    def put_token(self, resource: str, token: str) -> ManagementAnswer:
        """Send a token for a resource."""
        kind = "servicebus.windows.net:sastoken"
        return self.request("$cbs", token, operation="put-token", type=kind, name=resource)

    def transfer_whole(self, payload: bytes, handle: int = 0, **fields: Any) -> None:
        """Send one message in as many frames as it needs."""
        parts_ = [payload[start : start + FRAME] for start in range(0, len(payload), FRAME)]
        self.transfer(parts_[0], handle, more=len(parts_) > 1, **fields)
        for number, part in enumerate(parts_[1:], 2):
            more = number < len(parts_)
            self.send("transfer", handle=handle, delivery_id=self.last_delivery, more=more, payload=part)

    def refused(self, address: str, *, sends: bool = False, **fields: Any) -> frames.Composite:
        """Attach; return the error with which the link is refused."""
        terminus = {"target": frames.target(address)} if sends else {"source": frames.source(address)}
        handle = next(self._handles)
        self.attach(f"link-{handle}", not sends, handle, **{**terminus, **fields})
        error: frames.Composite = self.until("detach").error
        self.detach(handle)
        return error


def data(body: bytes, **annotations: Value) -> bytes:
    """An encoded event."""
    encoded = {name: encode(value) for name, value in annotations.items()}
    front = sections.annotations_section(sections.MESSAGE_ANNOTATIONS, encoded) if encoded else b""
    return front + sections.section(sections.DATA, body)


def batch(*events: bytes) -> bytes:
    """An encoded batch."""
    return b"".join(sections.section(sections.DATA, each) for each in events)


def epoch(level: int) -> dict[Symbol, Value]:
    """The link properties of a receiver with an owner level."""
    return {Symbol("com.microsoft:epoch"): Long(level)}

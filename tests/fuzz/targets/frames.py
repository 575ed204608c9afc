"""Frames into the engine: the connection stays open or ends with an error, and bystanders notice nothing."""

from __future__ import annotations

from tests.support.amqp.engine_fuzz import BEGUN, OPENED, survive
from tests.support.amqp.frames import AMQP_HEADER, composite, framed, performative, source, target

WORDS = (
    framed(performative("attach", name="a", handle=0, role=True, source=source("chat/a"), target=target(None))),
    framed(performative("attach", name="b", handle=1, role=False, source=source("chat/a"), target=target("chat/a"))),
    framed(performative("transfer", handle=1, delivery_id=0, delivery_tag=b"t") + b"\x00Su\xa0\x01m"),
    framed(performative("disposition", role=True, first=0, state=composite("accepted"))),
    framed(performative("detach", handle=0, closed=True)),
    framed(performative("end")),
    framed(performative("close")),
    b"chat/a",
    b"$replies.edge",
)  # fmt: skip
BEFORE = (OPENED + BEGUN, OPENED, AMQP_HEADER, b"")


def one(data: bytes) -> None:
    """The first byte says how far the conversation is, the second how it is cut."""
    if len(data) > 2:
        survive(BEFORE[data[0] % len(BEFORE)] + data[2:], [data[1]] if data[1] else [])

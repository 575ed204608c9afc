"""Rejections whose frame comes in pieces: their text is heard whole, also behind a NUL (part 3, 3.4.3)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import decode_all
from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.link.handlers import LinkHandler
from gateway.amqp.link.link import Link
from gateway.amqp.link.outcomes import Modified, Outcome, Rejected
from gateway.amqp.proton.batch import LONG_DISPOSITION
from gateway.errors import AmqpError
from tests.support.amqp.frames import AMQP_HEADER, composite, error, framed, performative, receive_all, source
from tests.support.amqp.messages import message

WINDOWS = {"incoming_window": 2**20, "outgoing_window": 9, "next_outgoing_id": 0}


class RecordingHandler(LinkHandler):
    """A connection with one receiver, and the outcomes that it gives."""

    link: Link
    error: AmqpError | None = None

    def __init__(self) -> None:
        self.outcomes: list[tuple[Any, Outcome]] = []
        self.engine = Engine(EngineConfig("gw"), self, server=True)
        terminus = {"name": "a", "handle": 0, "role": True, "source": source("a")}
        flow = {"next_incoming_id": 0, "handle": 0, "delivery_count": 0, "link_credit": 2**20}
        frames = [
            performative("open", container_id="p"),
            performative("begin", **WINDOWS),
            performative("attach", **terminus),
            performative("flow", **flow, **WINDOWS),
        ]
        receive_all(self.engine, AMQP_HEADER + b"".join(map(framed, frames)))
        self.engine.take()

    def send(self, context: int) -> None:
        self.link.send(message(b"x"), context)
        self.engine.take()

    def on_outcome(self, context: Any, outcome: Outcome) -> None:
        self.outcomes.append((context, outcome))

    def on_credit(self) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...

    def engine_opened(self, engine: Engine) -> None:
        engine.open()

    def link_requested(self, link: Link) -> None:
        self.link = link
        link.accept(self)  # type: ignore[arg-type]  # no message comes

    soon = None  # its links end at once

    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None:
        self.error = error

    def engine_dirty(self) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...


def rejected(number: int, text: str) -> bytes:
    state = composite("rejected", error=error("vendor:no", text))
    return framed(performative("disposition", role=True, first=number, settled=True, state=state))


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize("text", ["cut\0here", "\0", "plain", "x" * 90 + "\0" + "y" * 90])
def test_a_rejection_is_heard_whole_wherever_its_frame_is_cut(text: str, others: bool) -> None:
    """Its text ended at a NUL, as proton shows it, unless all of the frame came in one read."""
    owner, count = RecordingHandler(), 0
    size, other = len(rejected(0, text)), framed(performative("flow", next_incoming_id=0, **WINDOWS)) if others else b""
    for first in range(1, size):
        for second in sorted({first, min(first + 1, size), (first + size) // 2, size - 1} - {*range(first)}):
            owner.send(count)
            data = rejected(count, text)
            for piece in (other + data[:first], data[first:second], data[second:] + other):
                receive_all(owner.engine, piece)
            count += 1
    received = [(context, outcome.error) for context, outcome in owner.outcomes if isinstance(outcome, Rejected)]
    assert [context for context, _ in received] == [*range(count)]
    assert {(each.condition, each.description) for _, each in received if each} == {("vendor:no", text)}
    owner.engine.lost(None)
    owner.engine.free()


def test_what_follows_a_cut_rejection_has_a_text_of_its_own() -> None:
    owner, texts = RecordingHandler(), ["one\0a", "plain", "two\0b", ""]
    for number, _ in enumerate(texts):
        owner.send(number)
    data = b"".join(rejected(number, text) for number, text in enumerate(texts))
    receive_all(owner.engine, data[:30])
    receive_all(owner.engine, data[30:])
    assert [outcome.error.description for _, outcome in owner.outcomes] == texts  # type: ignore[attr-defined]
    owner.engine.lost(None)
    owner.engine.free()


def modified(count: int, annotations: dict[str, str]) -> bytes:
    """A disposition for the first `count` messages."""
    state = composite("modified", delivery_failed=True, message_annotations=annotations)
    return framed(performative("disposition", role=True, first=0, last=count - 1, settled=True, state=state))


ANNOTATIONS = {f"x-opt-{number}": "a" * number for number in range(40)}
MANY = 120


@pytest.mark.parametrize("cut", [0, 5, 30, 200, 700])
def test_a_long_state_is_read_once_for_all_of_its_messages(cut: int) -> None:
    """proton's 3,000 copies of a state with 800 annotations took 500 MB, and kept them until the connection ended."""
    owner, data = RecordingHandler(), modified(MANY, ANNOTATIONS)
    assert len(data) > LONG_DISPOSITION
    for number in range(MANY):
        owner.send(number)
    for piece in (data[:cut], data[cut:] + rejected(MANY, "none of these")):
        receive_all(owner.engine, piece)
    outcomes = [outcome for _, outcome in owner.outcomes]
    assert [context for context, _ in owner.outcomes] == [*range(MANY)]
    assert {isinstance(outcome, Modified) and outcome.failed for outcome in outcomes} == {True}
    assert len({id(outcome.annotations) for outcome in outcomes if isinstance(outcome, Modified)}) == 1
    assert decode_all(outcomes[0].annotations) == ANNOTATIONS  # type: ignore[attr-defined]
    owner.engine.lost(None)
    owner.engine.free()


@pytest.mark.parametrize("cut", [0, 1000])
def test_a_state_that_is_too_large_for_its_messages_ends_the_connection(cut: int) -> None:
    """One frame could make the process grow by its size for each of 80,000 messages."""
    owner, text = RecordingHandler(), {"x-opt-much": "m" * 60_000}
    for number in range(1200):
        owner.send(number)
    data = modified(2**30, text)
    for piece in (data[:cut], data[cut:]):
        receive_all(owner.engine, piece)
    assert owner.outcomes == []
    assert owner.error is not None
    assert owner.error.condition == "amqp:resource-limit-exceeded"
    assert "bytes for 1200 messages; the limit for all of them is 64 MiB" in owner.error.description
    owner.engine.free()

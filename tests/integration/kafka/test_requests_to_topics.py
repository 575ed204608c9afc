"""Requests in a topic whose cookies must be stored before a reader gets them (KM-22; `keys.max_cookie`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.outcomes import ACCEPTED
from gateway.amqp.message import sections
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from gateway.nodes.topic_requests import TopicRequests
from gateway.routing.cookie_offload import CookieOffload
from tests.support.amqp.messages import message
from tests.support.gateway.crossing import hop_annotations
from tests.support.kafka.streams import Streams, bodies, fill

SOLO = "solo"
KEPT = SimpleNamespace(stored=lambda: None)
REQUEST = message(b"ask", da={"response-address-cookie": b"c"})
EVENT = EncodedEvent(REQUEST, 0, 7)


class Crossings:
    """The transform for one reader; `outcomes` are its results in order."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.later: list[Callable[[], None]] = []
        waits = SimpleNamespace(later=lambda _, call: self.later.append(call))
        self.context = SimpleNamespace(transforms=self, waits=waits)

    def transform_for(self, *_: object) -> Callable[[bytes], bytes]:
        return self.cross

    def cross(self, data: bytes) -> bytes:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return bytes(outcome)


@pytest.fixture
def leave(monkeypatch: pytest.MonkeyPatch) -> Callable[[Crossings], TopicRequests]:
    monkeypatch.setattr("gateway.nodes.topic_requests.permit", lambda *_: None)

    def make(transforms: Crossings) -> TopicRequests:
        scope: Any = SimpleNamespace(name="core", context=transforms.context)
        return TopicRequests(scope, None)

    return make


def test_a_request_waits_until_its_cookie_is_kept(leave: Callable[[Crossings], TopicRequests]) -> None:
    wait = CookieOffload(b"crossed", KEPT)  # type: ignore[arg-type]
    leaving, called = leave(Crossings(wait)), list[str]()
    assert leaving(EVENT, lambda: called.append("again")) is None
    assert called == []
    wait.answered(True)
    assert called == ["again"]
    assert leaving(EVENT, lambda: None) == b"crossed"


@pytest.mark.parametrize("known", [True, False], ids=["known at once", "known later"])
def test_a_cookie_that_could_not_be_kept_is_tried_again(
    leave: Callable[[Crossings], TopicRequests], known: bool
) -> None:
    wait = CookieOffload(b"lost", KEPT)  # type: ignore[arg-type]
    transforms, called = Crossings(wait, b"crossed"), list[str]()
    leaving = leave(transforms)
    if known:
        wait.answered(False)
    assert leaving(EVENT, lambda: called.append("again")) is None
    if not known:
        wait.answered(False)
    assert called == []
    transforms.later.pop()()
    assert called == ["again"]
    assert leaving(EVENT, lambda: None) == b"crossed"


def test_what_may_not_be_answered_goes_without_annotations(leave: Callable[[Crossings], TopicRequests]) -> None:
    leaving = leave(Crossings(AmqpError(UNAUTHORIZED_ACCESS, "no right")))
    shown = leaving(EVENT, lambda: None)
    assert shown is not None
    assert hop_annotations(shown) == {}
    assert leaving(EncodedEvent(message(b"plain"), 0, 8), lambda: None) == message(b"plain")


class Slow:
    """A transform that completes an event only when the test says so."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.again: Callable[[], None] = lambda: None
        self.asked = asyncio.Event()
        self.known = False

    def __call__(self, event: EncodedEvent, again: Callable[[], None]) -> bytes | None:
        if event.offset == self.offset and not self.known:
            self.again = again
            self.asked.set()
            return None
        return event.data


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
async def test_nothing_overtakes_a_request_that_waits(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(streams, SOLO, 2)
    sender = await streams.sender(SOLO)
    headers = [("amqp.response-address-cookie", b"c")]
    monkeypatch.setattr("bridges.kafka.records.mapping.RecordWriter.record", lambda *_: (None, b"2", headers))
    assert await sender.send(message(b"2", app={"double": 0.5})) == ACCEPTED  # with a double, which C leaves to Python
    monkeypatch.undo()
    await fill(streams, SOLO, 2, first=3)
    slow = Slow(2)
    node = streams.bridge.node

    def attach(route: Any, link: Any) -> None:
        link.leaving = slow
        node(route).attach(link)

    monkeypatch.setattr(streams.bridge, "node", lambda route: SimpleNamespace(attach=partial(attach, route)))
    receiver = await streams.receiver(SOLO, after="@earliest", credit=10)
    assert bodies(await receiver.receive(2)) == [0, 1]
    await asyncio.wait_for(slow.asked.wait(), 60)
    slow.known = True
    slow.again()
    got = await receiver.receive(3)
    assert bodies(got) == [2, 3, 4]
    assert sections.delivery_annotations(got[0].data, sections.walk(got[0].data))["response-address-cookie"] == b"c"

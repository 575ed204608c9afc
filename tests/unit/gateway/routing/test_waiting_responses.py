"""Responses that wait for shared state when the link that brought them ends: settled ones go on, or are counted."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.link.outcomes import RELEASED
from gateway.errors import NOT_FOUND, AmqpError
from gateway.principal import nobody
from gateway.response.cookies.cookie import Cookie, Uses
from gateway.response.cookies.cookie_store import CookieNotLoaded
from gateway.routing.destination_link import Destination
from gateway.routing.requester_limits import BESIDE, DETACHED
from gateway.routing.response_router import AdmissionContext, AdmissionRequired, ResponseRouter
from policies.model.keys import LONGEST_SKEW

COOKIE = Cookie("edge", "$replies.core", "q/1", 1 << 42, uses=Uses(1, b"n" * 12))
DATA = b"x" * 100


class Store:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Any], None]] = []
        self.kept_for: list[int] = []
        self.given_back = 0

    def get(self, key: str, then: Callable[[Any], None]) -> None:
        self.asked.append(then)

    def acquire(self, key: str, claim: str, limit: int, ttl_ms: int, then: Callable[[Any], None]) -> None:
        self.asked.append(then)
        self.kept_for.append(ttl_ms)

    def release(self, key: str, claim: str) -> None:
        self.given_back += 1


class Responder:
    """The link that brings responses: what became of them."""

    scope, user, name, behind = "core", "anonymous", "responses", None
    context, requester = SimpleNamespace(answer=True), nobody("core")
    source, target, properties, presettled, engine = None, SimpleNamespace(_replace=lambda **_: None), {}, False, None
    rejects, granted = True, 0

    def __init__(self) -> None:
        self.dropped: list[int] = []
        self.settled: list[Any] = []

    def drop(self, delivery: int) -> None:
        self.dropped.append(delivery)

    def settle(self, delivery: int, outcome: Any) -> None:
        self.settled.append((delivery, outcome))

    def message_refused(self, error: AmqpError) -> None: ...
    def fail(self, error: AmqpError) -> None: ...
    def tag(self, delivery: int) -> bytes:
        return b""

    def grant(self, credit: int) -> None: ...


class World:
    """A router with its store, and the node that its responses go to."""

    def __init__(self, wait: str) -> None:
        self.store, self.link, self.got = Store(), Responder(), list[bytes]()
        self.left: list[int] = []
        """How much the node had each time that it was told to charge it."""
        self.fetched, self.waits_for = False, wait
        later = lambda *_: SimpleNamespace(cancel=lambda: None)  # noqa: E731
        waits = AdmissionContext(self.store, lambda: 0, lambda: 0.0, later)  # type: ignore[arg-type]
        self.router = ResponseRouter(self.link, self._aim, waits)  # type: ignore[arg-type]

    def _aim(self, link: Any, data: bytes) -> Destination:
        aim = Destination(("edge", "q/1", "home"), data, self._attach, COOKIE.expiry_ms)
        if self.waits_for == "use":
            raise AdmissionRequired(aim, None, COOKIE, lambda fault: AmqpError(NOT_FOUND, "used up"))
        if not self.fetched:
            raise CookieNotLoaded("cookie:1", self._load, lambda fault: AmqpError(NOT_FOUND, "unknown"))
        return aim

    def _load(self, value: bytes, now_ms: int) -> None:
        self.fetched = True

    def _attach(self, route: Any) -> None:
        took: Callable[..., None] = lambda _, data, settled: self.got.append(data)  # noqa: E731
        left: Callable[[], None] = lambda: self.left.append(len(self.got))  # noqa: E731
        route.accept(SimpleNamespace(on_transfer=took, on_detach=lambda _: None, attended=True, peer_left=left))
        route.grant(10)

    def answer(self) -> None:
        """The store says yes to all that it was asked."""
        asked, self.store.asked = self.store.asked, []
        for then in asked:
            then(True if self.waits_for == "use" else b"value")


@pytest.fixture(params=["use", "cookie"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_what_came_settled_goes_on_when_the_answer_comes(world: World) -> None:
    for delivery in range(2):
        world.router.on_transfer(delivery, DATA, True)
    world.router.on_detach(None)
    assert DETACHED.held == 2 * (len(DATA) + BESIDE)
    world.answer()
    assert (world.got, world.link.dropped, world.store.given_back) == ([DATA] * 2, [], 0)
    assert DETACHED.held == 0


def test_a_use_is_counted_for_longer_than_any_gateway_accepts_the_cookie() -> None:
    world, minutes = World("use"), 60_000
    world.router.on_transfer(0, DATA, False)
    behind = 5 * minutes
    assert world.store.kept_for == [COOKIE.expiry_ms + LONGEST_SKEW + behind]


def test_what_its_sender_can_send_again_is_forgotten(world: World) -> None:
    world.router.on_transfer(0, DATA, False)
    world.router.on_detach(None)
    assert DETACHED.held == 0
    world.answer()
    assert (world.got, world.link.dropped, world.link.settled) == ([], [], [])
    assert world.store.given_back == (world.waits_for == "use")


def test_what_has_no_room_is_counted_as_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DETACHED, "_most", len(DATA) + BESIDE)
    for delivery in range(2):
        world.router.on_transfer(delivery, DATA, True)
    world.router.on_detach(None)
    assert world.link.dropped == [1]
    world.answer()
    assert (world.got, world.link.dropped) == ([DATA], [1])
    assert DETACHED.held == 0


def test_what_state_cannot_tell_is_counted_as_dropped(world: World) -> None:
    world.router.on_transfer(0, DATA, True)
    world.router.on_detach(None)
    for then in world.store.asked:
        then(None)
    assert (world.got, world.link.dropped, DETACHED.held) == ([], [0], 0)


def test_while_the_link_is_there_it_is_told(world: World) -> None:
    world.router.on_transfer(0, DATA, False)
    for then in world.store.asked:
        then(None)
    assert (world.got, world.link.settled) == ([], [(0, RELEASED)])


class Slow(World):
    """Its node grants credit only when told to."""

    def _attach(self, route: Any) -> None:
        super()._attach(route)
        self.route = route
        route.granted = 0


@pytest.mark.parametrize("gone", ["handed on", "out of time", "beyond its part"])
def test_what_waits_no_more_gives_its_room_back_at_once(gone: str) -> None:
    """A destination kept the room of all that it ever had, until the last of it was taken."""
    world, size = Slow("cookie"), len(DATA) + BESIDE
    world.fetched = True
    for delivery in range(3):
        world.router.on_transfer(delivery, DATA, True)
    world.router.on_detach(None)
    assert DETACHED.held == 3 * size
    if gone == "handed on":
        world.route.grant(1)
        assert world.got == [DATA]
    elif gone == "beyond its part":
        assert world.route.cut(2) == 1
    else:
        world.route._waiting[0] = world.route._waiting[0]._replace(until_ms=5)
        world.route.tidy(6)
    assert DETACHED.held == 2 * size
    world.route.grant(2)
    assert DETACHED.held == 0
    assert world.link.dropped == ([] if gone == "handed on" else [2] if gone == "beyond its part" else [0])


def test_what_the_node_has_is_charged_while_others_wait_before_it() -> None:
    """The node charged what it had only when the last message that waited before it was handed on."""
    world = Slow("cookie")
    world.fetched = True
    world.router.on_transfer(0, DATA, True)
    world.route.grant(1)
    for delivery in range(1, 4):
        world.router.on_transfer(delivery, DATA, True)
    assert (world.got, world.left) == ([DATA], [])
    world.router.on_detach(None)
    assert world.left == [1]
    world.route.grant(1)
    assert world.left == [1, 2]
    world.route.grant(2)
    assert DETACHED.held == 0

"""The shared link to a container's anonymous terminus is not waited for once its connection is gone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.connectors.anonymous_sender import SharedAnonymousSender
from gateway.errors import DETACH_FORCED, AmqpError


class Connector:
    """Its reply address is not known yet."""

    transactions: Any = None

    def __init__(self) -> None:
        self.waiting: list[Callable[[AmqpError | None], None]] = []

    def when_returnable(self, link: Any, then: Callable[[AmqpError | None], None]) -> None:
        self.waiting.append(then)


class Route:
    """A destination of a link with many."""

    incoming = True

    def __init__(self) -> None:
        self.refused: list[str] = []

    def refuse(self, error: AmqpError) -> None:
        self.refused.append(error.condition)


@pytest.fixture
def connector() -> Connector:
    return Connector()


@pytest.fixture
def shared(connector: Connector) -> SharedAnonymousSender:
    made = SharedAnonymousSender(connector, lambda *_: None)  # type: ignore[arg-type, return-value]
    made.opened(SimpleNamespace(offered={"ANONYMOUS-RELAY"}))  # type: ignore[arg-type]
    return made


def test_a_connection_that_is_lost_before_the_first_use_is_not_usable(shared: SharedAnonymousSender) -> None:
    assert shared.usable
    shared.closed()
    assert not shared.usable


def test_a_route_that_waits_for_the_reply_address_is_answered_when_the_connection_goes(
    shared: SharedAnonymousSender, connector: Connector
) -> None:
    route: Any = Route()
    shared.attach(route)
    shared.closed()
    assert route.refused == [DETACH_FORCED]
    connector.waiting[0](None)  # an answer that comes late changes nothing
    assert route.refused == [DETACH_FORCED]

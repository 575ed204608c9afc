"""One disposition of a peer may be about very many messages: its work is done in turns, in order, and to its end."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.link.link import Link
from gateway.amqp.transport.connection import Connection
from gateway.errors import AmqpError
from tests.support.amqp.frames import composite, framed, performative, source, target
from tests.support.amqp.messages import message
from tests.unit.gateway.amqp.transport.test_turns import Clock, Host, House

MANY = 5000
STEP = 50
"""Outcomes that are handled in one step."""
WINDOWS = {"next_incoming_id": 0, "incoming_window": 10 * MANY, "next_outgoing_id": 0, "outgoing_window": 9}
TERMINI = {"source": source("a"), "target": target("a")}


class Sends(Host):
    """Sends as many messages as it gets credit for; `said`: what it hears, in order.

    `takes`: the time of an outcome, in seconds of the clock.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.said: list[object] = []
        self.link: Link | None = None
        self.takes = 0.0001

    def requested(self, connection: Connection, link: Link) -> None:
        self.said.append(f"attach {link.name}")
        self.link = link
        link.accept(self)  # type: ignore[arg-type]  # no message comes

    def on_credit(self) -> None:
        assert self.link is not None
        while self.link.credit > 0:
            self.link.send(message(b"x"), len(self.said), False)

    def on_outcome(self, context: object, outcome: Any) -> None:
        self.said.append(type(outcome).__name__)
        self._clock.now += self.takes

    def on_detach(self, error: AmqpError | None) -> None:
        self.said.append("detach")

    @property
    def outcomes(self) -> int:
        return sum(each == "Released" or each == "Modified" for each in self.said)


def receiving(house: House) -> Connection:
    """A peer that has received many messages and has settled none of them."""
    connection = house.connect()
    connection.data_received(
        framed(performative("attach", name="r", handle=0, role=True, **TERMINI))
        + framed(performative("flow", handle=0, delivery_count=0, link_credit=MANY, **WINDOWS))
    )
    house.rest()
    return connection


RELEASED = framed(
    performative("disposition", role=True, first=0, last=MANY - 1, settled=True, state=composite("released"))
)
ATTACH = framed(performative("attach", name="later", handle=1, role=True, **TERMINI))


def outcomes_of_turns(house: House) -> list[int]:
    host, found = house.host, list[int]()
    assert isinstance(host, Sends)
    while house.loop.ready:
        before = host.outcomes
        house.loop.turn()
        found.append(host.outcomes - before)
    return found


def heard(house: House) -> list[object]:
    assert isinstance(house.host, Sends)
    return house.host.said


@pytest.mark.parametrize("pieces", [1, 2])
def test_the_outcomes_of_one_disposition_come_in_turns(house: House, pieces: int) -> None:
    """80,000 released events held the loop, and with it all other connections, for more than a second."""
    connection = receiving(house)
    for piece in (RELEASED[:20], RELEASED[20:]) if pieces == 2 else (RELEASED,):
        connection.data_received(piece)
    found = outcomes_of_turns(house)
    assert heard(house)[0] == "attach r"
    assert len(heard(house)) == MANY + 1
    assert sum(found) >= MANY - STEP
    assert max(found) <= STEP


def test_outcomes_that_take_long_have_shorter_turns(house: House) -> None:
    """Fifty with 800 annotations each held the loop for a tenth of a second, and as many were handled after a write."""
    connection = receiving(house)
    assert isinstance(house.host, Sends)
    house.host.takes = 0.0005
    connection.data_received(RELEASED)
    found = outcomes_of_turns(house)
    assert sum(found) >= MANY - STEP
    assert max(found) <= 7  # for 2 ms, and the step of 1 ms that begins before they are over


@pytest.mark.parametrize("together", [True, False])
def test_what_comes_behind_it_waits(house: House, together: bool) -> None:
    connection = receiving(house)
    connection.data_received(RELEASED + ATTACH if together else RELEASED)
    if not together:
        connection.data_received(ATTACH)
    house.rest()
    assert heard(house)[-1] == "attach later"
    assert len(heard(house)) == MANY + 2


def test_another_connection_does_not_wait(house: House) -> None:
    connection, other = receiving(house), house.connect()
    connection.data_received(RELEASED)
    other.data_received(ATTACH)
    while "attach later" not in heard(house):
        house.loop.turn()
    assert len(heard(house)) < MANY // 2
    house.rest()
    assert len(heard(house)) == MANY + 2


def test_a_peer_that_leaves_has_said_all_of_it(house: House) -> None:
    """What is settled last would otherwise be taken back when the link ends."""
    connection = receiving(house)
    connection.data_received(RELEASED)
    connection.connection_lost(None)
    house.rest()
    assert heard(house).count("detach") == 1
    assert heard(house)[-1] == "detach"
    assert len(heard(house)) == MANY + 2
    assert connection.engine is None


def test_an_error_in_the_middle_of_it_ends_the_connection(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, failed = receiving(house), list[Exception]()
    monkeypatch.setattr(house.hub, "failed", lambda which, error: (failed.append(error), which.broken()))

    def fails(self: Sends, context: object, outcome: object) -> None:
        self.said.append(context)
        if len(self.said) > 3 * STEP:
            raise ValueError("a fault of ours")

    monkeypatch.setattr(Sends, "on_outcome", fails)
    connection.data_received(RELEASED)
    connection.data_received(ATTACH)
    house.rest()
    assert [str(each) for each in failed] == ["a fault of ours"]
    assert "attach later" not in heard(house)
    engine = connection.engine
    assert engine is not None
    assert engine.closed

"""proton keeps the messages of a link that only we have detached, so the connection that leaves them there pays."""

from __future__ import annotations

import pytest

from gateway.amqp.engine.engine import Engine
from gateway.amqp.transport.connection import Connection
from gateway.errors import AmqpError
from tests.support.amqp.frames import framed, performative
from tests.unit.gateway.amqp.transport.test_many_outcomes import MANY, Sends, receiving
from tests.unit.gateway.amqp.transport.test_turns import House

LEAST = 600
"""Bytes that proton needs at least for a delivery."""
DETACH = framed(performative("detach", handle=0, closed=True))
END = framed(performative("end"))


def left_alone(house: House) -> tuple[Connection, Engine]:
    """A peer that has not settled what it got, and whose link we have detached."""
    connection = receiving(house)
    assert isinstance(house.host, Sends)
    assert house.host.link is not None
    assert connection.engine is not None
    house.host.link.detach(AmqpError("amqp:internal-error", "enough"))
    house.host.link.take_unsettled()
    house.rest()
    return connection, connection.engine


def test_messages_on_a_link_that_the_peer_does_not_detach_are_charged(house: House) -> None:
    """Found with links that were attached one after the other: the process grew by 50 MB with each."""
    connection, engine = left_alone(house)
    account = connection.account
    assert account is not None
    assert engine.forsaken > LEAST * MANY
    assert account.held.unsettled >= engine.forsaken


@pytest.mark.parametrize("answer", [DETACH, END], ids=["detach", "end"])
def test_until_it_does(house: House, answer: bytes) -> None:
    connection, engine = left_alone(house)
    connection.data_received(answer)
    house.rest()
    assert engine.forsaken == 0


def test_a_link_that_the_peer_detaches_first_leaves_nothing(house: House) -> None:
    connection = receiving(house)
    connection.data_received(DETACH)
    house.rest()
    assert connection.engine is not None
    assert connection.engine.forsaken == 0

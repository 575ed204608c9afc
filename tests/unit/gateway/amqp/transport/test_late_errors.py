"""An error of a peer behind very many outcomes, which are handled in turns, is told as it would be without them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.amqp.engine.engine import Engine
from gateway.amqp.transport.connection import Connection
from tests.support.amqp.frames import Frame, composite, framed, parse, performative
from tests.unit.gateway.amqp.transport.test_many_outcomes import MANY, TERMINI, WINDOWS, Sends, receiving
from tests.unit.gateway.amqp.transport.test_turns import House

TAKEN_HANDLE = framed(performative("attach", name="again", handle=0, role=True, **TERMINI))
HEARTBEAT = b"\x00\x00\x00\x08\x02\x00\x00\x00"
SECOND_OPEN = framed(performative("open", container_id="again"))
NO_LINK = framed(performative("flow", handle=7, delivery_count=0, link_credit=1, **WINDOWS))
ERRORS = (
    (TAKEN_HANDLE, "amqp:session:handle-in-use", "handle 0 already has a link"),
    (SECOND_OPEN, "amqp:illegal-state", "the connection is already open"),
    (NO_LINK, "amqp:session:unattached-handle", "no link is attached at handle 7"),
)


def written(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is written to the socket from now on, in pieces."""
    pieces = list[bytes]()
    monkeypatch.setattr(connection.transport, "writelines", pieces.extend)
    return pieces


def frames_in(data: bytes) -> Iterator[Frame]:
    while data:
        size = int.from_bytes(data[:4], "big")
        if (frame := parse(data[:size])) is not None:
            yield frame
        data = data[size:]


def released(count: int) -> bytes:
    state = composite("released")
    return framed(performative("disposition", role=True, first=0, last=count - 1, settled=True, state=state))


@pytest.mark.parametrize(("error", "condition", "description"), ERRORS)
@pytest.mark.parametrize("before", [1, 49, 50, 75, 100, 125, MANY])
def test_an_error_behind_outcomes_has_its_condition(
    house: House, monkeypatch: pytest.MonkeyPatch, before: int, error: bytes, condition: str, description: str
) -> None:
    """It was `amqp:internal-error` where its turn came while output was written, and proton's own words elsewhere."""
    connection, failed = receiving(house), list[Exception]()
    monkeypatch.setattr(house.hub, "failed", lambda which, problem: failed.append(problem))
    pieces = written(connection, monkeypatch)
    connection.data_received(released(before) + error)
    house.rest()
    close = list(frames_in(b"".join(pieces)))[-1]
    assert not failed
    assert (close.kind, close.error["condition"], close.error["description"]) == ("close", condition, description)
    assert isinstance(house.host, Sends)
    assert house.host.outcomes == before


def test_an_idle_time_out_behind_outcomes_has_our_words(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = receiving(house)
    pieces = written(connection, monkeypatch)
    connection.data_received(released(MANY))
    engine = connection.engine
    assert engine is not None
    engine.tick(1)
    engine.tick(10**9)
    house.rest()
    close = list(frames_in(b"".join(pieces)))[-1]
    assert close.error["description"] == "nothing was received within the idle time-out of our open"


def test_what_waits_for_its_turn_is_no_silence(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers that sent heartbeats were cut off for the time that the gateway took for their own outcomes."""
    connection = receiving(house)
    pieces = written(connection, monkeypatch)
    connection.data_received(released(MANY))
    engine = connection.engine
    assert engine is not None
    asked = []
    for now in (1, 10**6, 10**9):
        asked.append(engine.tick(now, unheard=True) - now)
        connection.data_received(HEARTBEAT)
    house.rest()
    assert [frame.kind for frame in frames_in(b"".join(pieces))].count("close") == 0
    assert all(0 < wait <= 10**6 for wait in asked)
    engine.tick(10**9)
    engine.tick(10**10)
    house.rest()
    assert [frame.kind for frame in frames_in(b"".join(pieces))][-1] == "close"


def test_a_look_tells_whether_input_waits(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, told = receiving(house), list[bool]()
    monkeypatch.setattr(house.loop, "time", lambda: 1.0, raising=False)
    monkeypatch.setattr(Engine, "tick", lambda engine, now, unheard: told.append(unheard) or 0)
    connection._look()
    connection.data_received(released(MANY))
    connection._look()
    house.rest()
    connection._look()
    connection.outside = 8  # a heartbeat that waits in a WebSocket for its turn
    connection._look()
    assert told == [False, True, False, True]

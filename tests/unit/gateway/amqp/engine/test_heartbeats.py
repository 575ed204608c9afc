"""Heartbeats are in time whenever something was written, and a connection that rests costs few looks (2.4.5)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.engine.engine import Engine
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.flush_scheduler import FlushScheduler
from tests.support.amqp.frames import AMQP_HEADER, framed, performative

BEARS = 8.0
"""Seconds of silence that the peer bears."""


class Clock:
    """A loop whose time goes from one call to the next."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, list[SimpleNamespace]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], object]) -> Any:
        handle = SimpleNamespace(at=self.now + seconds, call=call)
        handle.cancel = lambda: self.calls.remove(handle) if handle in self.calls else None
        self.calls.append(handle)
        return handle

    def call_soon(self, call: Callable[[], object]) -> Any:
        return self.call_later(0, call)

    def run(self, until: float) -> None:
        while due := [each for each in self.calls if each.at <= until]:
            first = min(due, key=lambda each: each.at)
            self.calls.remove(first)
            self.now = max(self.now, first.at)
            first.call()
        self.now = until


class Socket:
    """Notes when something was written."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.times = clock, list[float]()

    def writelines(self, pieces: list[bytes]) -> None:
        self.times.append(self.clock.now)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None: ...
    def abort(self) -> None: ...


class Open:
    """An open connection to a peer that bears so much silence."""

    def __init__(self, bears: float = BEARS, idle_timeout: int = 0) -> None:
        self.clock = Clock()
        loop: Any = self.clock
        self.socket, self.ended, host = Socket(self.clock), list[object](), SimpleNamespace()
        host.opened = lambda connection: connection.engine.open()
        host.closed = lambda connection, error: self.ended.append(error)
        self.connection = Connection(FlushScheduler(loop), host, server=True, handshake=1, name="test")  # type: ignore[arg-type]
        self.connection.transport = self.socket  # type: ignore[assignment]
        self.looks = 0
        config = EngineConfig("gw", idle_timeout=idle_timeout)
        self.engine = self.connection.engine = Counting(self, config)
        self.receive(AMQP_HEADER + framed(performative("open", container_id="p", idle_time_out=int(bears * 1000))))
        self.receive(framed(performative("begin", **WINDOWS)))

    def receive(self, data: bytes) -> None:
        self.engine.receive(data)

    def writes(self, times: Iterable[float]) -> None:
        """Something that has to be answered comes at these times."""
        for at in times:
            self.clock.run(at)
            self.receive(framed(performative("flow", next_incoming_id=0, echo=True, **WINDOWS)))
            self.clock.run(at)

    def gaps(self) -> list[float]:
        times = self.socket.times
        return [after - before for before, after in pairwise(times)]


WINDOWS = {"incoming_window": 10, "outgoing_window": 10, "next_outgoing_id": 0}


class Counting(Engine):
    """Counts the looks."""

    def __init__(self, owner: Open, config: EngineConfig) -> None:
        super().__init__(config, owner.connection, server=True)
        self._counted = owner

    def tick(self, now_ms: int, unheard: bool = False) -> int:
        self._counted.looks += 1
        return super().tick(now_ms, unheard)


@pytest.mark.parametrize("seed", range(20))
def test_a_peer_never_waits_for_a_frame_as_long_as_it_bears(seed: int) -> None:
    """What is written between two looks, or during a rest, does not put the next heartbeat off to the last moment."""
    draw, opened = random.Random(seed), Open()
    opened.clock.run(0.02)
    times = [0.02]
    while len(times) < 30:
        times.append(times[-1] + draw.choice([0.03, 0.5, 1.01, 3.97, 4.03, 7.5, 40]) * draw.uniform(0.9, 1.1))
    opened.writes(times)
    opened.clock.run(times[-1] + 5 * BEARS)
    assert max(opened.gaps()) <= BEARS * 5 / 8 + 0.02
    assert len(opened.gaps()) >= 30


def test_a_connection_that_rests_is_looked_at_as_often_as_it_has_to_speak() -> None:
    """It was looked at eight times in the time-out of its peer: 10,000 of them took a tenth of a core at 60 s."""
    opened = Open()
    opened.clock.run(2 * BEARS)
    before, written = opened.looks, len(opened.socket.times)
    opened.clock.run(102 * BEARS)
    assert len(opened.socket.times) - written == 200
    assert opened.looks - before <= 210


def test_a_look_that_finds_nothing_to_do_writes_nothing() -> None:
    opened = Open(bears=0, idle_timeout=60_000)
    opened.clock.run(1)
    assert opened.engine.tick(2000) > 2000
    assert not opened.engine.dirty


def test_a_silent_peer_is_closed_and_not_looked_at_any_more() -> None:
    opened = Open(idle_timeout=4000)
    opened.clock.run(20)
    assert str(opened.ended[0]).startswith("amqp:resource-limit-exceeded")
    looks = opened.looks
    opened.clock.run(100)
    assert opened.looks == looks

"""What a connection holds is charged as what it is, also where its size alone has not changed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gateway.amqp.engine.pressure import Pressure
from gateway.held.account import Account, Pool

SIZE = 60_000


class Socket:
    """What `Pressure` asks of an asyncio transport."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


class Loop:
    """What `Pressure` asks of an asyncio loop; `pass_time` calls what waits."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> SimpleNamespace:
        assert 0 < seconds <= 1
        self.waiting.append(call)
        return SimpleNamespace(cancel=lambda: self.waiting.remove(call))

    def pass_time(self) -> None:
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


def engine_of_nothing() -> Any:
    """An engine without links and messages."""
    counted = ("in_bytes", "in_count", "out_bytes", "out_count", "out_data", "unread", "unwritten", "write_limit")
    tally = SimpleNamespace(**dict.fromkeys(counted, 0))
    return SimpleNamespace(
        tally=tally, weigh=lambda: tally.in_bytes, unfinished=0, table=SimpleNamespace(count=0), kept=0, forsaken=0,
        largest_output=0, blocked=False, ending=False, refusing=False, choked=False, stuffed=False,
        config=SimpleNamespace(shared=False),
    )  # fmt: skip


def opened(engine: Any, loop: Loop) -> tuple[Pressure, Account]:
    account, socket = Account(2**20, (Pool(2**30),), lambda: None), Socket()
    return Pressure(loop, engine, account, socket, lambda how: None, lambda: None), account  # type: ignore[arg-type]


def test_what_waited_unread_is_charged_as_received_when_it_is() -> None:
    """Input waits while others keep the loop busy, and may be the last of its connection for long."""
    engine: Any = engine_of_nothing()
    pressure, account = opened(engine, Loop())
    pressure.turn(SIZE)
    assert (account.held.unfinished, account.held.received_deliveries) == (SIZE, 0)
    engine.tally.in_bytes, engine.tally.in_count = SIZE, 3
    pressure.turn(0)
    assert (account.held.unfinished, account.held.received, account.held.received_deliveries) == (0, SIZE, 3)


def test_a_small_change_is_charged_a_second_later() -> None:
    """The last piece of a message comes alone: too small to be charged at once, and nothing may follow it."""
    engine: Any = engine_of_nothing()
    loop = Loop()
    pressure, account = opened(engine, loop)
    engine.tally.in_bytes, engine.tally.in_count = SIZE, 2
    pressure.turn(0)
    engine.tally.in_bytes, engine.tally.in_count = SIZE + 1, 3
    pressure.turn(0)
    pressure.turn(0)
    assert account.held.received_deliveries == 2
    assert len(loop.waiting) == 1
    loop.pass_time()
    assert (account.held.received, account.held.received_deliveries) == (SIZE + 1, 3)
    assert not loop.waiting


def test_a_change_that_its_sizes_do_not_show_is_charged_a_second_later() -> None:
    """One message came and another waits unread; then all three are here, and the weighted sum is the same."""
    engine: Any = engine_of_nothing()
    loop = Loop()
    pressure, account = opened(engine, loop)
    engine.tally.in_bytes, engine.tally.in_count = SIZE, 1
    pressure.turn(SIZE)
    engine.tally.in_bytes, engine.tally.in_count = 3 * SIZE, 3
    pressure.turn(0)
    assert account.held.received_deliveries == 1
    loop.pass_time()
    assert (account.held.received, account.held.unfinished, account.held.received_deliveries) == (3 * SIZE, 0, 3)


def test_a_connection_that_has_ended_is_not_charged_later() -> None:
    engine: Any = engine_of_nothing()
    loop = Loop()
    pressure, _ = opened(engine, loop)
    pressure.turn(0)
    engine.tally.in_bytes = 1
    pressure.turn(0)
    pressure.close()
    assert not loop.waiting

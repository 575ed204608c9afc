"""What a connection holds is charged as what it is, also where its size alone has not changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.amqp.engine.pressure import Pressure
from gateway.held.account import Account, Pool

SIZE = 60_000


class Socket:
    """What `Pressure` asks of an asyncio transport."""

    def get_write_buffer_size(self) -> int:
        return 0


def engine_of_nothing() -> Any:
    """An engine without links and messages."""
    counted = ("in_bytes", "in_count", "out_bytes", "out_count", "out_data", "unread", "unwritten", "write_limit")
    tally = SimpleNamespace(**dict.fromkeys(counted, 0))
    return SimpleNamespace(
        tally=tally, weigh=lambda: tally.in_bytes, unfinished=0, link_count=0, kept=0, largest_output=0, blocked=False,
        ending=False, refusing=False, choked=False, stuffed=False, config=SimpleNamespace(shared=False),
    )  # fmt: skip


def test_what_waited_unread_is_charged_as_received_when_it_is() -> None:
    """Input waits while others keep the loop busy, and may be the last of its connection for long."""
    engine: Any = engine_of_nothing()
    account, socket = Account(2**20, (Pool(2**30),), lambda: None), Socket()
    pressure = Pressure(None, engine, account, socket, lambda how: None, lambda: None)  # type: ignore[arg-type]
    pressure.turn(SIZE)
    assert (account.held.unfinished, account.held.received_deliveries) == (SIZE, 0)
    engine.tally.in_bytes, engine.tally.in_count = SIZE, 3
    pressure.turn(0)
    assert (account.held.unfinished, account.held.received, account.held.received_deliveries) == (0, SIZE, 3)

"""The drain at shutdown: messages that were taken get their outcomes, and no new ones are taken."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.tasks import until

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

_STEADY: Final = 5
"""Checks in a row, 10 ms apart, that must find nothing unsettled: between two reads of a busy socket one may do so."""


class End(Protocol):
    """A connection or connector."""

    @property
    def engine(self) -> Engine | None: ...


async def drain(
    ends: Iterable[End], unsettled: Callable[[], int], close_bridges: Callable[[], Awaitable[None]], patience: float
) -> int:
    """Wait for outcomes for up to `patience` seconds; return how many deliveries have none.

    No credit is given from the start on. When everything is settled, messages that peers still send with the credit
    that they have are released, so that no message is stored whose outcome is lost with the connection.
    """
    ends, deadline = list(ends), time.monotonic() + patience
    for end in ends:
        if end.engine is not None:
            end.engine.stop_granting()
    await until(_steadily(lambda: not unsettled()), patience)
    await close_bridges()
    for end in ends:
        if end.engine is not None:
            end.engine.stop_taking()
    await until(lambda: not unsettled(), max(0.0, deadline - time.monotonic()))
    return unsettled()


def _steadily(condition: Callable[[], bool]) -> Callable[[], bool]:
    """Whether a condition has been true at the last few calls."""
    times = 0

    def check() -> bool:
        nonlocal times
        times = times + 1 if condition() else 0
        return times >= _STEADY

    return check

"""The end of a gateway that is in order: what was taken gets its outcome, and what comes after that is not begun."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.tasks import until

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

_STEADY: Final = 5
"""Times in a row (10 ms apart) that nothing may be unsettled: between two reads of a busy socket it is so for once."""


class End(Protocol):
    """A connection or connector."""

    @property
    def engine(self) -> Engine | None: ...


async def drain(
    ends: Iterable[End], unsettled: Callable[[], int], close_bridges: Callable[[], Awaitable[None]], patience: float
) -> int:
    """Wait for outcomes for up to `patience` seconds; return how many deliveries have none.

    No credit is given from the start on. When all is settled, what a peer still sends with the credit that it has is
    released, so that nothing is stored whose outcome the close of its connection would cut off.
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

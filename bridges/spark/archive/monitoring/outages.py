"""Outages of a job that runs for months: it waits, retries, and reports the start and the end of each outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridges.spark.archive.contents.ranges import Refused
from bridges.spark.errors import PipelineError
from gateway.errors import DECODE_ERROR, NOT_FOUND, NOT_IMPLEMENTED, UNAUTHORIZED_ACCESS, AmqpError

MOST: Final = 60.0
"""Seconds, the upper bound of a pause."""
_FIRST: Final = 1.0
_FINAL: Final = frozenset({NOT_FOUND, UNAUTHORIZED_ACCESS, NOT_IMPLEMENTED, DECODE_ERROR})
"""What Kafka or a gateway answers that will not change by itself."""


def is_outage(error: PipelineError) -> bool:
    """Whether it may pass: something did not answer or broke down. False for what a job itself has refused.

    A job's own verdict (rows are missing, a topic was recreated, events are lost) has no other error behind it.
    """
    behind = error.__cause__ or error.__context__
    while isinstance(behind, PipelineError):
        behind = behind.__cause__ or behind.__context__
    if isinstance(behind, AmqpError):
        return behind.condition not in _FINAL
    return behind is not None and not isinstance(behind, Refused)


class Outages:
    """Pauses of a job, with full jitter: at random up to a bound that doubles each time."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        random: Callable[[], float],
        patience: float | None = None,
    ) -> None:
        """`random` gives numbers from 0 to 1; after `patience` seconds of one outage, `wait` returns false."""
        self._say: Final = say
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._random: Final = random
        self._patience: Final = patience
        self._since: float | None = None
        self._bound = _FIRST
        self.count = 0
        """How many there were."""

    @property
    def lasting(self) -> bool:
        """Whether there is one now."""
        return self._since is not None

    def wait(self, error: PipelineError) -> bool:
        """Pause after an error; false: it has lasted too long."""
        now = self._clock()
        if self._since is None:
            self._since, self._bound = now, _FIRST
            self.count += 1
            if self._patience != 0:
                self._say(f"{error}; waiting for it to pass")
        left = None if self._patience is None else self._since + self._patience - now
        if left is not None and left <= 0:
            return False
        pause = self._random() * self._bound
        self._sleep(pause if left is None else min(pause, left))
        self._bound = min(self._bound * 2, MOST)
        return True

    def over(self) -> None:
        """The job goes on."""
        if self._since is not None:
            self._say(f"the job goes on after {self._clock() - self._since:.0f} s")
            self._since = None

"""Outages of a job that runs for months: it waits, retries, and reports the start and the end of each outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridges.spark.archive.contents.ranges import Refused
from bridges.spark.errors import Lasting, PipelineError
from gateway.errors import DECODE_ERROR, NOT_FOUND, NOT_IMPLEMENTED, UNAUTHORIZED_ACCESS, AmqpError

MOST: Final = 60.0
"""Maximum length of a pause, in seconds."""
_FIRST: Final = 1.0
_FINAL: Final = frozenset({NOT_FOUND, UNAUTHORIZED_ACCESS, NOT_IMPLEMENTED, DECODE_ERROR})
"""Errors of Kafka or a gateway that do not pass without intervention."""


def is_outage(error: PipelineError) -> bool:
    """Whether an error may pass: a service did not answer or failed. False for errors that the job itself raised.

    The job's own errors (missing rows, a recreated topic, lost events) have no other error as their cause; those of
    others that will not pass, such as a broken manifest or a worker without a module, are `Lasting`.
    """
    behind: BaseException | None = error
    while isinstance(behind, PipelineError):
        if isinstance(behind, Lasting):
            return False
        behind = behind.__cause__ or behind.__context__
    if isinstance(behind, AmqpError):
        return behind.condition not in _FINAL
    return behind is not None and not isinstance(behind, Refused)


class Outages:
    """Retry pauses of a job: exponential backoff with full jitter."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        random: Callable[[], float],
        patience: float | None = None,
    ) -> None:
        """`random` returns numbers from 0 to 1; after `patience` seconds of one outage, `wait` returns false."""
        self._say: Final = say
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._random: Final = random
        self._patience: Final = patience
        self._since: float | None = None
        self._bound = _FIRST
        self.count = 0
        """The number of outages so far."""

    @property
    def lasting(self) -> bool:
        """Whether an outage is going on."""
        return self._since is not None

    def wait(self, error: PipelineError) -> bool:
        """Pause after an error. Returns false if the outage has lasted too long."""
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
        """End the outage, if there is one: a step has succeeded."""
        if self._since is not None:
            self._say(f"the job goes on after {self._clock() - self._since:.0f} s")
            self._since = None

"""The rate limit of a replay, and how often it tells of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_STEP: Final = 0.5
"""Seconds between two checks whether to stop."""
_BATCH: Final = 20_000
_EACH: Final = 1.0
"""Seconds between two reports."""


@dataclass
class Pace:
    """A rate limit from now on. Waiting ends early when `stopped` returns true."""

    rate: float | None
    """Events per second; `None`: no limit."""
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    stopped: Callable[[], bool]
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def batch(self) -> int:
        """The maximum number of events to send at once: those of one second, if there is a limit."""
        return _BATCH if self.rate is None else max(1, min(_BATCH, int(self.rate)))

    def wait(self, sent: int) -> bool:
        """Wait until more events than `sent` may be sent. Returns false if the replay was stopped."""
        if self.rate is None:
            return not self.stopped()
        due = self.began + sent / self.rate
        while not self.stopped():
            left = due - self.clock()
            if left <= 0:
                return True
            self.sleep(min(left, _STEP))
        return False


class SpacedReports:
    """Passes on what is told, at most once a second."""

    def __init__(self, tell: Callable[[int], None], clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._tell: Final = tell
        self._clock: Final = clock
        self._due = clock() + _EACH

    def __call__(self, sent: int) -> None:
        """So many events were sent."""
        if (now := self._clock()) >= self._due:
            self._due = now + _EACH
            self._tell(sent)

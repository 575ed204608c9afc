"""The rate of a replay: how long to wait before more events may be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_STEP: Final = 0.5
"""Seconds between two questions whether to stop."""
_BATCH: Final = 20_000


@dataclass
class Pace:
    """A rate from now on. `stopped` is asked while it waits."""

    rate: float | None
    """Events a second; `None`: no limit."""
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    stopped: Callable[[], bool]
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def batch(self) -> int:
        """The most events to send at once: those of a second, if there is a limit."""
        return _BATCH if self.rate is None else max(1, min(_BATCH, int(self.rate)))

    def wait(self, sent: int) -> bool:
        """Wait until more events than `sent` may be sent; whether they may: false if the replay was stopped."""
        if self.rate is None:
            return not self.stopped()
        due = self.began + sent / self.rate
        while not self.stopped():
            left = due - self.clock()
            if left <= 0:
                return True
            self.sleep(min(left, _STEP))
        return False

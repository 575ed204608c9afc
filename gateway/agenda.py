"""What is to be done for each of very many messages, in order: some at once, the rest in later turns of the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

AT_ONCE: Final = 50
"""Steps in one turn of the loop."""
Soon: TypeAlias = Callable[[Callable[[], None]], object]
"""Schedules a call for a later turn of the loop."""
Step: TypeAlias = Callable[[], object]


class Agenda:
    """The steps of a transaction, or of the end of a link; none overtakes an earlier one."""

    def __init__(self, soon: Soon | None = None) -> None:
        """`soon` None: all steps are taken at once."""
        self._soon: Final = soon
        self._left: Final[deque[Iterator[Step]]] = deque()
        self._busy = False
        """Whether steps are being taken, now or in a later turn."""

    def add(self, steps: Iterable[Step]) -> None:
        """Take these steps after all earlier ones: at once if there are few. They are asked for one by one."""
        self._left.append(iter(steps))
        if not self._busy:
            self._busy = True
            self._go_on()

    def _go_on(self) -> None:
        """Take some steps; an error in one of them does not keep the others from their turns."""
        try:
            self._take_some()
        finally:
            self._busy = False
            if self._left and self._soon is not None:
                self._busy = True
                self._soon(self._go_on)

    def _take_some(self) -> None:
        left, taken = self._left, 0
        while left and (taken < AT_ONCE or self._soon is None):
            if (step := next(left[0], None)) is None:
                left.popleft()
            else:
                taken += 1
                step()

"""Finds a container that leaves attaches and detaches of the gateway without an answer.

Such a link stays in memory, and keeps its handle, for as long as the connection lasts: clients that come and go would
let both grow without a limit. What the container answers late does no harm, so only links that wait long count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

MOST: Final = 1_000
"""Links that may wait for an answer for longer than `PATIENCE`."""
PATIENCE: Final = 10.0
"""Seconds."""
_TEXT: Final = f"more than {MOST:,} attaches and detaches of the gateway have had no answer for {PATIENCE:.0f} s"


class UnansweredLinks:
    """Watches the connections of one connector; `end` is called for one that has to be replaced."""

    def __init__(
        self, later: Callable[[float, Callable[[], None]], object], end: Callable[[Engine, AmqpError], None]
    ) -> None:
        self._later: Final = later
        self._end: Final = end
        self._watched: Engine | None = None

    def look(self, engine: Engine) -> None:
        """A link is about to be attached: see whether there are too many without an answer, and if so, look again."""
        if self._watched is not engine and (found := engine.abandoned(MOST)) is not None:
            self._watched = engine
            self._later(PATIENCE, partial(self._look_again, engine, found[1]))

    def _look_again(self, engine: Engine, last: int) -> None:
        """`last`: the number of the last link that was abandoned before the first look."""
        if self._watched is engine:
            self._watched = None
        if not engine.closed and (found := engine.abandoned(MOST)) is not None and found[0] <= last:
            self._end(engine, AmqpError(RESOURCE_LIMIT_EXCEEDED, _TEXT))

"""From a request into another scope to its response: one request at a time is timed for each scope that answers.

The gateway keeps no table of requests, so this remembers one: the id by which its response will refer to it. Other
requests cost one look at a flag, and responses too unless a request is timed; then each is searched for its id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.amqp.message.sections import property_field, walk
from gateway.errors import AmqpError
from gateway.observability.histogram import Histogram, HistogramSample
from gateway.response.crossing import Crossing, Messages
from gateway.response.fields import CORRELATION_ID, MESSAGE_ID

if TYPE_CHECKING:
    from gateway.links.link import Transform
    from gateway.response.restore import Restored
    from gateway.routing.fair_share import Timer

_BOUNDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
_PAUSE: Final = 0.05
"""Seconds between a response and the next request that is timed."""
_GIVE_UP: Final = 60.0
"""Seconds after which another request is timed: the response is late, or refers to its request in another way."""
_SHORTEST: Final = 4
"""Bytes of an encoded id; shorter ones are found in any message."""
Later = Callable[[float, Callable[[], None]], "Timer"]


class ResponseTimes:
    """The times of all pairs of scopes; outlives a reload."""

    def __init__(self, later: Later, clock: Callable[[], float] = time.monotonic) -> None:
        """`later(seconds, call)` makes a timer, `clock` returns seconds."""
        self._later: Final = later
        self._clock: Final = clock
        self._watches: Final[dict[str, _Watch]] = {}
        self._histograms: Final[dict[tuple[str, str], Histogram]] = {}

    def expect(self, origin: str, target: str) -> None:
        """Show these two scopes from now on, even if no request crosses."""
        self.histogram(origin, target)

    def histogram(self, origin: str, target: str) -> Histogram:
        """The times of requests from `origin` that `target` answers."""
        return self._histograms.setdefault((origin, target), Histogram(_BOUNDS))

    def timed(self, origin: str, target: str, change: Transform) -> Transform:
        """The transform of requests, some of which are timed."""
        watch, histogram = self._watch(target), self.histogram(origin, target)

        def crossing(data: bytes) -> bytes:
            if watch.idle:
                watch.begin(data, histogram)
            return change(data)

        if not isinstance(change, Crossing):
            return crossing

        def several(messages: Messages, start: int, end: int) -> list[bytes]:
            if watch.idle and start < end:
                watch.begin(messages[start][1], histogram)
            return change_all(messages, start, end)

        change_all = change.several
        return Crossing(crossing, several)

    def answered(self, target: str, restored: Restored) -> Restored:
        """Return a response that came to a reply address of `target`."""
        watch = self._watches.get(target)
        if watch is not None and watch.id and watch.id in restored.data:
            watch.look(restored.data)
        return restored

    def _watch(self, target: str) -> _Watch:
        found = self._watches.get(target)
        if found is None:
            found = self._watches[target] = _Watch(self._later, self._clock)
        return found

    def samples(self) -> Iterator[HistogramSample]:
        """The histograms, for metrics."""
        for (origin, target), histogram in self._histograms.items():
            yield HistogramSample("response_seconds", (("scope", origin), ("target", target)), histogram)


class _Watch:
    """The request that is timed among those that one scope answers."""

    __slots__ = ("_clock", "_histogram", "_later", "_since", "_timer", "id", "idle")

    def __init__(self, later: Later, clock: Callable[[], float]) -> None:
        self._later, self._clock = later, clock
        self._histogram: Histogram | None = None
        self._timer: Timer | None = None
        self._since = 0.0
        self.idle = True
        """Whether the next request is timed."""
        self.id = b""
        """The encoded id of the request that is timed; empty: none is."""

    def begin(self, data: bytes, histogram: Histogram) -> None:
        """Time this request, if it has an id that can be found again."""
        self.idle = False
        self.id = _id_of(data)
        self._histogram, self._since = histogram, self._clock()
        self._timer = self._later(_GIVE_UP if self.id else _PAUSE, self._reset)

    def look(self, data: bytes) -> None:
        """This response has the id somewhere."""
        if _field(data, CORRELATION_ID) != self.id:
            return
        if self._histogram is not None:
            self._histogram.observe(self._clock() - self._since)
        if self._timer is not None:
            self._timer.cancel()
        self.id = b""
        self._timer = self._later(_PAUSE, self._reset)

    def _reset(self) -> None:
        self.idle, self.id = True, b""


def _id_of(data: bytes) -> bytes:
    """By what a response refers to this request; empty: nothing that can be found."""
    found = _field(data, CORRELATION_ID) or _field(data, MESSAGE_ID) or b""
    return found if len(found) >= _SHORTEST else b""


def _field(data: bytes, index: int) -> bytes | None:
    try:
        found = property_field(data, walk(data), index)
    except AmqpError:  # the node that takes the message refuses it
        return None
    return None if found is None or found == b"\x40" else found

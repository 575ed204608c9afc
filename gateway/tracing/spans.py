"""A bounded buffer of ended spans, so that traffic never waits for the collector."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from gateway.tracing.context import TraceContext, left_out, read

SpanKind = Literal["request", "response", "produce", "deliver"]
_ID_BITS: Final = 64
_RATIO_BITS: Final = 64


class Place(NamedTuple):
    """The link attributes of a span, with names of the peer's scope only (docs/decisions/0085-traces.md).

    `rule` is the pattern of the address rule; None: a temporary node.
    """

    kind: SpanKind
    scope: str
    address: str
    rule: str | None


class OpenSpan(NamedTuple):
    """The span of a message that has no outcome yet; times are in nanoseconds since 1970."""

    context: TraceContext
    id: int
    start: int
    size: int


class Span(NamedTuple):
    """A span from a transfer to its outcome; `condition` is the error of a rejection or of the link's detach."""

    place: Place
    open: OpenSpan
    end: int
    outcome: str
    condition: str | None


class Tracer:
    """Samples messages and buffers their spans until they are exported."""

    def __init__(self, sample: float, buffer: int, clock: Callable[[], int]) -> None:
        """`sample`: the fraction of traces that are recorded, 0 to 1. `buffer`: the maximum number of open spans and
        of ended ones. `clock` returns nanoseconds since 1970."""
        self._below: Final = round(sample * 2**_RATIO_BITS)
        self.buffer: Final = buffer
        self.clock: Final = clock
        self.ended: Final[deque[Span]] = deque()
        self.open = 0
        """The number of open spans of all links."""
        self.overflowed = 0
        """The number of spans that were dropped because `buffer` was full."""

    def begin(self, data: bytes, now: int) -> OpenSpan | None:
        """Start a span for a message. Returns None if the message is not sampled, or too many spans are open."""
        context = None if left_out(data, self._below) else read(data)
        if context is None or context.trace % 2**_RATIO_BITS >= self._below:
            return None
        if self.open >= self.buffer:
            self.overflowed += 1
            return None
        self.open += 1
        return OpenSpan(context, secrets.randbits(_ID_BITS) or 1, now, len(data))

    def end(self, span: Span) -> None:
        """Queue an ended span for export."""
        self.open -= 1
        if len(self.ended) >= self.buffer:
            self.overflowed += 1
        else:
            self.ended.append(span)

    def take(self, most: int) -> list[Span]:
        """Remove ended spans from the buffer, oldest first, and return them."""
        return [self.ended.popleft() for _ in range(min(most, len(self.ended)))]

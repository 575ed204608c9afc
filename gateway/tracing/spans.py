"""Spans that have ended and wait for the collector: bounded, so that traffic never waits for it."""

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
    """What a span says of its link: names of one scope only, that of the link's peer (docs/decisions/0085-traces.md).

    `rule` is the pattern of the address rule; None: a temporary node.
    """

    kind: SpanKind
    scope: str
    address: str
    rule: str | None


class OpenSpan(NamedTuple):
    """A message without an outcome yet; times in nanoseconds since 1970."""

    context: TraceContext
    id: int
    start: int
    size: int


class Span(NamedTuple):
    """From a transfer to its outcome; `condition` is that of a rejection, or why the link ended."""

    place: Place
    open: OpenSpan
    end: int
    outcome: str
    condition: str | None


class Tracer:
    """Samples messages, and keeps their spans until they are sent."""

    def __init__(self, sample: float, buffer: int, clock: Callable[[], int]) -> None:
        """`sample`: the part of the traces that gets spans, 0 to 1. `buffer`: open spans and ended ones that may wait,
        each. `clock` returns nanoseconds since 1970."""
        self._below: Final = round(sample * 2**_RATIO_BITS)
        self.buffer: Final = buffer
        self.clock: Final = clock
        self.ended: Final[deque[Span]] = deque()
        self.open = 0
        """Spans that have begun and not ended, of all links."""
        self.overflowed = 0
        """Spans that were not made, or not kept, because of `buffer`."""

    def begin(self, data: bytes, now: int) -> OpenSpan | None:
        """A span for a message; None: its sender or `sample` leave it out, or too many are open."""
        context = None if left_out(data, self._below) else read(data)
        if context is None or context.trace % 2**_RATIO_BITS >= self._below:
            return None
        if self.open >= self.buffer:
            self.overflowed += 1
            return None
        self.open += 1
        return OpenSpan(context, secrets.randbits(_ID_BITS) or 1, now, len(data))

    def end(self, span: Span) -> None:
        """A span has ended."""
        self.open -= 1
        if len(self.ended) >= self.buffer:
            self.overflowed += 1
        else:
            self.ended.append(span)

    def take(self, most: int) -> list[Span]:
        """Ended spans, oldest first; they are not kept any more."""
        return [self.ended.popleft() for _ in range(min(most, len(self.ended)))]

"""What the links of each address rule measure in C: sizes of messages, and the time from a transfer to its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.amqp.proton._batch import SECOND_BOUNDS, SIZE_BOUNDS, Measures
from gateway.observability.counters import Labels
from gateway.observability.histogram import CountedHistogram, HistogramSample

_STEP: Final = 50
"""Rules that are read before other work may be done."""


class RuleMeasures:
    """The measures of all rules; links get those of their rule, and count in them from then on."""

    def __init__(self) -> None:
        self._of: Final[dict[Labels, Measures]] = {}

    def of(self, scope: str, rule: str) -> Measures:
        """The measures of a rule, by its pattern in the policy."""
        labels = ("scope", scope), ("rule", rule)
        found = self._of.get(labels)
        if found is None:
            found = self._of[labels] = Measures()
        return found

    def samples(self) -> Iterator[HistogramSample | None]:
        """All of them at a scrape."""
        for number, (labels, measures) in enumerate([*self._of.items()]):
            if number % _STEP == 0:
                yield None
            for direction, reading in (("in", measures.received), ("out", measures.sent)):
                seconds = CountedHistogram(SECOND_BOUNDS, reading)
                yield HistogramSample("transfer_outcome_seconds", (*labels, ("direction", direction)), seconds)
            yield HistogramSample("message_size_bytes", labels, CountedHistogram(SIZE_BOUNDS, measures.sizes))

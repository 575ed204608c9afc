"""Counters of a subscription's events since this process began to deliver it."""

from __future__ import annotations


class DeliveryCounts:
    """Totals, named as in `status.events` and in the metric's label `outcome`."""

    __slots__ = ("deadlettered", "delivered", "lost", "matched", "refused", "repeated")

    def __init__(self) -> None:
        self.matched = 0
        """Events that matched the filter when they were read first."""
        self.delivered = 0
        """Events that the sink has accepted."""
        self.repeated = 0
        """Attempts of an event beyond its first."""
        self.refused = 0
        """Events that the sink refused, or that were given up."""
        self.deadlettered = 0
        """Refused events that were copied to the dead-letter topic."""
        self.lost = 0
        """Offsets that retention deleted before they were read."""

    def by_name(self) -> dict[str, int]:
        """The totals by name."""
        return {name: getattr(self, name) for name in self.__slots__}

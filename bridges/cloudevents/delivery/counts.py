"""What happened to the events of a subscription, since this process has delivered it."""

from __future__ import annotations


class DeliveryCounts:
    """Totals; the names are those of `status.events` and of the metric's label `outcome`."""

    __slots__ = ("deadlettered", "delivered", "lost", "matched", "refused", "repeated")

    def __init__(self) -> None:
        self.matched = 0
        """Events that the filter is true of."""
        self.delivered = 0
        """Events that the sink has accepted."""
        self.repeated = 0
        """Sendings of an event beyond its first."""
        self.refused = 0
        """Events that the sink does not want, or that were given up."""
        self.deadlettered = 0
        """Refused events with a copy in the dead-letter topic."""
        self.lost = 0
        """Offsets that retention has deleted before they were read."""

    def by_name(self) -> dict[str, int]:
        """The totals by their names."""
        return {name: getattr(self, name) for name in self.__slots__}

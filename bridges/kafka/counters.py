"""What the bridge counts per cluster; read when metrics are scraped, so that a message costs one addition."""

from __future__ import annotations


class ClusterCounters:
    """Totals since start."""

    __slots__ = (
        "accepted", "annotations_refused", "dead_lettered", "delivered", "dropped", "expired", "gaps", "held_back",
        "modified", "presettled_failed",
        "redelivered", "rejected", "released",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0
        """Transfers that Kafka has acknowledged, pre-settled ones included."""
        self.rejected = 0
        self.released = 0
        self.modified = 0
        """Transfers whose fate is unknown."""
        self.presettled_failed = 0
        """Pre-settled transfers that are not in Kafka, or perhaps not."""
        self.delivered = 0
        self.redelivered = 0
        self.dead_lettered = 0
        """Events copied to a dead-letter topic."""
        self.dropped = 0
        """Events given up for a link after too many redeliveries."""
        self.expired = 0
        """Events left out because their time was over (drop_expired)."""
        self.annotations_refused = 0
        """Times annotations of a modified outcome were left out: the event had 64 KiB of them with those."""
        self.held_back = 0
        """Times a link got nothing more until it settles what it has (64 MiB)."""
        self.gaps = 0
        """Positions that retention overtook (KM-8)."""

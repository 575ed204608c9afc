"""Counters of a cluster; they are read when metrics are scraped, so that a message costs one addition."""

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
        """Transfers that Kafka may or may not have written."""
        self.presettled_failed = 0
        """Pre-settled transfers that Kafka has not written, or perhaps not."""
        self.delivered = 0
        self.redelivered = 0
        self.dead_lettered = 0
        """Events copied to a dead-letter topic."""
        self.dropped = 0
        """Events that a link gets no more after too many redeliveries."""
        self.expired = 0
        """Expired events that were not delivered (drop_expired)."""
        self.annotations_refused = 0
        """Times that the annotations of a modified outcome were ignored: the event would have had more than 64 KiB."""
        self.held_back = 0
        """Times that a link had to settle deliveries (64 MiB) before it got more."""
        self.gaps = 0
        """Positions that retention overtook (KM-8)."""

"""How a log is read: annotations of events, and events that a consumer does not accept (KM-8, KM-12)."""

from dataclasses import dataclass
from typing import Literal

Truncation = Literal["continue", "detach"]
Beginning = Literal["latest", "earliest"]
Annotate = Literal["always", "negotiated", "never"]
Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class LogReadingRule:
    """How a Kafka rule serves its receivers; `dead_letter` is a topic.

    `strict_order` None means: for links whose position is stored, those of durable termini and consumer groups.
    """

    max_redeliveries: int = 5
    strict_order: bool | None = None
    dead_letter: str | None = None
    on_truncation: Truncation = "continue"
    filter_without_position: Beginning = "latest"
    annotate: Annotate = "always"
    drop_expired: bool = False
    isolation: Isolation = "read_committed"
    strict_timestamps: bool = False

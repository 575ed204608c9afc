"""A record of a topic as a CloudEvent: its context attributes as text, its data, and where it lies (CE 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event, in binary mode whichever mode its record has; `attributes` without `datacontenttype`.

    `address` is the address of the stream; `partition`, `offset` and `timestamp` (milliseconds since 1970) are the
    record's, `key` is its key.
    """

    attributes: Mapping[str, str]
    content_type: str | None
    data: bytes | None
    """None: the event has no data."""
    key: bytes | None
    address: str
    partition: int
    offset: int
    timestamp: int

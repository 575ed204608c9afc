"""Collects the events of a batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridges.cloudevents.delivery.entry import EventEntry, OrderingGroup


def collect_batch(groups: Iterable[OrderingGroup], most: int, size: int) -> tuple[list[EventEntry], bool]:
    """Ready events up to `most` and `size` bytes (at least one event), and whether a limit was reached."""
    entries: list[EventEntry] = []
    left = size
    for group in groups:
        for entry in group.entries:
            if entry.event is None or entry.max_batch == 1:
                break
            most, left = min(most, entry.max_batch), left - entry.size
            if len(entries) >= most or (entries and left < 0):
                return entries, True
            entries.append(entry)
    return entries, len(entries) >= most or left <= 0

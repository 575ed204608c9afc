"""Topics and their addresses in an archive: each topic has an address of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def shared_addresses(topics: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each topic (topic: address) at the address of an earlier one, and the mistake.

    An archive knows an event by its address, partition and offset, so two topics there would be one log.
    """
    first: dict[str, str] = {}
    for topic, address in topics.items():
        if (earlier := first.setdefault(address, topic)) != topic:
            yield topic, f"the topics {earlier} and {topic} have one address, {address}: give each its own"

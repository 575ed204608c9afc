"""The contents of the journal: kinds of links and crossings with their counts, and the rows made of them (pure).

Rows contain no body, cookie or secret. Addresses that work like secrets, rewritten reply addresses and those of
temporary nodes, are cut where their random part begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from policies.rules import DirectRoute, KafkaRoute, RedirectRoute, RelayRoute, Route

VERSION: Final = 1
class LinkEnd(NamedTuple):
    """The end of a route; fields that do not apply are None."""

    route: str = "none"
    """direct, relay (to a container), kafka, service, redirect; or temporary, replies, anonymous; none."""
    rule: str | None = None
    replies: str | None = None
    to_scope: str | None = None
    to_address: str | None = None
    to_connector: str | None = None
    to_cluster: str | None = None
    to_topic: str | None = None


def end_of(scope: str, address: str, rule: str | None, routes: Iterable[Route]) -> LinkEnd:
    """The end of an address's routes; `replies` is that of the first relay into another scope.

    A relay within one scope does not change messages, so its `replies` does not count.
    """
    end = LinkEnd("none", rule, None, scope, address)
    for route in routes:
        if isinstance(route, RelayRoute):
            crossed = route.scope is not None and end.replies is None
            replies = route.replies if crossed else end.replies
            place = route.scope if route.scope is not None else end.to_scope
            end = end._replace(
                route="relay", replies=replies, to_scope=place, to_address=route.address, to_connector=route.connector
            )
        elif isinstance(route, KafkaRoute):
            end = end._replace(route="kafka", to_cluster=route.cluster, to_topic=route.topic)
        elif isinstance(route, RedirectRoute):
            end = end._replace(route="redirect", to_address=route.address)
        else:
            end = end._replace(route="direct" if isinstance(route, DirectRoute) else "service")
    return end


class LinkSeen(NamedTuple):
    """One kind of link: its user, address and action, and the decision."""

    scope: str
    user: str | None
    """None: the gateway itself (responses, pulled queues)."""
    action: str
    address: str | None
    decision: str
    condition: str | None
    refused_by: str | None
    """`policy`; or `node`: allowed by the policy, and refused by the node."""
    end: LinkEnd
    filters: tuple[str, ...] = ()
    filter_set: str | None = None
    group: str | None = None
    """The consumer group of a link to an event log."""

    def fields(self) -> dict[str, Any]:
        """Its fields in rows."""
        own = self._asdict()
        del own["end"]
        return {**own, **self.end._asdict(), "filters": list(self.filters)}


class Crossed(NamedTuple):
    """One kind of crossing from a scope into another, and its decision."""

    scope: str
    replies: str
    to_scope: str
    to_address: str | None
    to_connector: str | None
    announced: bool
    """Whether the receiver announced response-address-supported."""
    believed: bool
    """Whether the announcement of the receiver counts (RA 2.1)."""
    result: str
    why: str
    condition: str | None


class LinkTotals:
    """The counts of one kind of link or crossing since the last row."""

    __slots__ = ("attached", "bytes", "links", "messages", "outcomes", "refused")

    def __init__(self) -> None:
        self.links = 0
        """Open links of this kind."""
        self.clear()

    def clear(self) -> None:
        """Reset the counts."""
        self.attached = self.messages = self.bytes = 0
        self.outcomes: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Whether anything was counted."""
        return bool(self.attached or self.messages or self.outcomes or self.refused)

    def add(self, to: dict[str, int], name: str, count: int = 1) -> None:
        """Add to one of the tables of counts."""
        to[name] = to.get(name, 0) + count


class Heading(NamedTuple):
    """The common fields of all rows of one gateway process."""

    gateway: str
    process: str

    def row(self, kind: str, seq: int, start_ms: int, end_ms: int, fields: Mapping[str, Any]) -> bytes:
        """A record value: JSON in UTF-8, without fields that are None."""
        text = f'{self.begun(kind, fields)},"seq":{seq},"from_ms":{start_ms},"to_ms":{end_ms}}}'
        return text.encode("utf-8", "replace")

    def begun(self, kind: str, fields: Mapping[str, Any]) -> str:
        """The beginning of a record value, as text: the fields that rows of one kind of link have in common."""
        row = {
            "v": VERSION,
            "kind": kind,
            "gateway": self.gateway,
            "process": self.process,
            **{name: value for name, value in fields.items() if value is not None},
        }
        return _json(row)[:-1]


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

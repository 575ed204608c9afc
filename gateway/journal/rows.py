"""What the journal says, as values: kinds of links and crossings with their counts, and the rows made of them (pure).

Nothing here holds a body, a cookie or a secret. Addresses that are as good as one, rewritten reply addresses and
those of temporary nodes, are cut where their random part begins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from policies.rules import DirectRoute, KafkaRoute, RedirectRoute, RelayRoute, Route

VERSION: Final = 1
class LinkEnd(NamedTuple):
    """Where a route ends; what does not apply is None."""

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
    """The end of the routes that an address of `scope` leads through; the first relay into a scope names the replies.

    A relay within one scope changes nothing, so it names none.
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
    """One kind of link: who asked for what, and what was decided."""

    scope: str
    user: str | None
    """None: the gateway itself (responses, pulled queues)."""
    action: str
    address: str | None
    decision: str
    condition: str | None
    refused_by: str | None
    """`policy`, or `node`: allowed by the policy, and refused by what is there."""
    end: LinkEnd
    filters: tuple[str, ...] = ()
    filter_set: str | None = None
    group: str | None = None
    """The consumer group that a link to an event log asked for."""

    def fields(self) -> dict[str, Any]:
        """As it stands in rows."""
        own = self._asdict()
        del own["end"]
        return {**own, **self.end._asdict(), "filters": list(self.filters)}


class Crossed(NamedTuple):
    """One way from a scope into another, and what happens on it."""

    scope: str
    replies: str
    to_scope: str
    to_address: str | None
    to_connector: str | None
    announced: bool
    """The receiver announced response-address-supported."""
    believed: bool
    """Whether what the receiver's container announces counts (RA 2.1)."""
    result: str
    why: str
    condition: str | None


class LinkTotals:
    """What happened to one kind of link or crossing since the last row."""

    __slots__ = ("attached", "bytes", "links", "messages", "outcomes", "refused")

    def __init__(self) -> None:
        self.links = 0
        """Links that may still count here."""
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.attached = self.messages = self.bytes = 0
        self.outcomes: dict[str, int] = {}
        self.refused: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Whether there is something to say."""
        return bool(self.attached or self.messages or self.outcomes or self.refused)

    def add(self, to: dict[str, int], name: str, count: int = 1) -> None:
        """Add to one of the tables."""
        to[name] = to.get(name, 0) + count


class Heading(NamedTuple):
    """What every row of one gateway process begins with."""

    gateway: str
    process: str

    def row(self, kind: str, seq: int, start_ms: int, end_ms: int, fields: Mapping[str, Any]) -> bytes:
        """A record value: JSON in UTF-8, fields that are None left out."""
        return finished(self.begun(kind, fields), seq, start_ms, end_ms)

    def begun(self, kind: str, fields: Mapping[str, Any]) -> str:
        """How a record value begins, as text, without what differs from row to row; `finished` adds that."""
        row = {
            "v": VERSION,
            "kind": kind,
            "gateway": self.gateway,
            "process": self.process,
            **{name: value for name, value in fields.items() if value is not None},
        }
        return _json(row)[:-1]


def finished(begun: str, seq: int, start_ms: int, end_ms: int, more: str = "") -> bytes:
    """A record value from `Heading.begun`; `more` are members of the object as text, each with a comma before it."""
    text = f'{begun},"seq":{seq},"from_ms":{start_ms},"to_ms":{end_ms}{more}}}'
    return text.encode("utf-8", "replace")


def message_text(size: int, settled: bool, is_annotated: bool, texts: Mapping[str, str | None]) -> str:
    """What a row says of one message, for `finished`."""
    told = "".join([f',"{name}":{_json(text)}' for name, text in texts.items() if text is not None])
    flags = f'"settled":{"true" if settled else "false"},"annotated":{"true" if is_annotated else "false"}'
    return f',"size":{size},{flags}{told}'


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

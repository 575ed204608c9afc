"""What has changed of a gateway between two rounds, as documents for streams; each round has a bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.admin.documents import backends
from gateway.admin.documents.connections import connection_document
from gateway.admin.documents.policy import refusal_document
from gateway.admin.live.rates_document import rates_document

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.source import AdminSource

MOST: Final = 50
"""Items of a kind in one round; the others are only counted."""
Change = tuple[str, object]


class Changes:
    """The differences of one gateway from round to round."""

    def __init__(self, source: AdminSource) -> None:
        self._source: Final = source
        self._known: set[int] = set(source.connections.numbers())
        self._refusals = source.refusals.total
        self._backends = dict(self._ready())
        self._policy = self._policy_now()

    def round(self) -> Iterator[Change]:
        """The changes since the last round; `status` and `rates` come in each."""
        source = self._source
        yield "status", source.status()
        yield "rates", rates_document(source.rates)
        if connections := self._connections():
            yield "connections", connections
        yield from self._changed_backends()
        if (new := source.refusals.total - self._refusals) > 0:
            self._refusals = source.refusals.total
            newest = [each for each, _ in zip(source.refusals.newest(), range(min(new, MOST)), strict=False)]
            yield "refusals", {"items": [refusal_document(*each, source.policy) for each in newest], "new": new}
        if (policy := self._policy_now()) != self._policy:
            self._policy = policy
            yield "policy", {"digest": policy[0], "last_reload": policy[2]}

    def _connections(self) -> Document | None:
        roster = self._source.connections
        now = set(roster.numbers())
        opened, closed = sorted(now - self._known), sorted(self._known - now)
        self._known = now
        if not opened and not closed:
            return None
        entries = [entry for number in opened[:MOST] if (entry := roster.get(number)) is not None]
        return {
            "opened": [connection_document(each) for each in entries],
            "closed": [str(number) for number in closed[:MOST]],
            "more": max(0, len(opened) - MOST) + max(0, len(closed) - MOST),
            "total": len(now),
        }

    def _policy_now(self) -> tuple[str, float | None, str | None]:
        outcome = self._source.policy_state.outcome
        return self._source.policy.digest, outcome and outcome.at, outcome and outcome.result

    def _changed_backends(self) -> Iterator[Change]:
        now = dict(self._ready())
        changed = [key for key, each in now.items() if self._backends.get(key, (None,))[0] != each[0]]
        gone = [{"kind": kind, "id": name} for kind, name in self._backends.keys() - now.keys()]
        self._backends = now
        if changed or gone:
            yield "backends", {"items": [now[key][1]() | {"kind": key[0]} for key in changed[:MOST]], "gone": gone}

    def _ready(self) -> Iterator[tuple[tuple[str, str], tuple[object, Callable[[], Document]]]]:
        """Whether each backend is ready and why not, and how to make its document."""
        source = self._source
        for name, cluster in source.clusters.items():
            yield ("cluster", name), (cluster.ready(), partial(backends.cluster_document, name, cluster))
        for key, connector in source.connectors():
            about = partial(backends.connector_document, *key, connector)
            yield ("connector", "/".join(key)), (connector.ready(), about)
        for key, bridge in source.bridges():
            yield ("bridge", "/".join(key)), (bridge.ready(), partial(backends.bridge_document, *key, bridge))

"""The services that a subscription manager uses, and the filter of a query."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.interfaces import CheckSink, FindStartOffsets, SubscriptionDelivery
from gateway.state.subscriptions.store import SubscriptionStore


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class ManagerDependencies(NamedTuple):
    """The services of one manager; a reload replaces `codec`, `check_sink` and `find_start_offsets`."""

    store: SubscriptionStore
    delivery: SubscriptionDelivery
    codec: SubscriptionCodec
    check_sink: CheckSink
    find_start_offsets: FindStartOffsets
    metrics: ManagerMetrics
    public_url: str | None = None
    """The URL at which sinks reach the API of the scope; None: no consent by callback."""
    now_ms: Callable[[], int] = wall_clock_ms


class QueryFilter(NamedTuple):
    """The subscriptions of a query: `limit` None means all, `after` is the last id of the previous page."""

    protocol: str | None = None
    state: str | None = None
    limit: int | None = None
    after: str = ""

"""The JSON of a subscription to a `Subscription`, or every mistake in it at once (CE 3.2.1 to 3.2.3). Pure."""

from __future__ import annotations

from collections.abc import Collection

from bridges.cloudevents.subscription.model import Invalid, Mistake, SinkProtocol
from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules

ALL_PROTOCOLS = frozenset(SinkProtocol)


def parse(
    body: bytes,
    rules: ManagerRules,
    *,
    id: str | None = None,
    owner: str,
    now_ms: int,
    stored: Subscription | None = None,
    offered: Collection[SinkProtocol] = ALL_PROTOCOLS,
) -> Subscription:
    """Parse the body of Create or Update; raises `Invalid`.

    `id`: that of the URL of an update, or a new one for an object without `id`. `stored` is what an update replaces:
    its id, owner and, for the same origin of the sink, the secrets that the body leaves out. `offered` are the
    protocols that this gateway has libraries for.
    """
    raise Invalid((Mistake("", "not yet"),))

"""The documents that a manager returns: subscriptions, their status, and its own capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.model.values import DeliverySettings, Json, SinkProtocol
from bridges.cloudevents.subscription.subscription import Subscription
from policies.model.scopes.subscriptions import OPERATIONS
from policies.subscriptions import ManagerRules


class SubscriptionView(NamedTuple):
    """A realized object and its revision; `created` is true if an upsert created it."""

    id: str
    revision: int
    document: Mapping[str, Json]
    created: bool = False
    consent_pending: bool = False
    """Its sink has not consented yet."""
    applied: bool = True
    """The gateway that delivers it has applied this change."""


class SubscriptionPage(NamedTuple):
    """A page of a list, in the order of ids; `next` is the id after which the next page starts."""

    items: list[Mapping[str, Json]]
    next: str | None


def without_query(uri: str) -> str:
    """A sink URI for logs, and for managers who are not its owner; its query may contain a secret."""
    return uri.partition("?")[0]


def redacted_for_manager(document: Mapping[str, Json]) -> Mapping[str, Json]:
    """The object as shown to others than its owner."""
    return {**document, "sink": without_query(str(document["sink"]))}


def time_text(ms: int) -> str:
    """RFC 3339, in seconds, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def status_document(
    subscription: Subscription, revision: int, status: SubscriptionStatus | None
) -> dict[str, Json]:
    """The status object of docs/subscriptions.md."""
    if status is None:
        return {"state": "active", "revision": revision, **_settled(subscription)}
    shown: dict[str, Json] = {"state": status.state.value}
    if status.since is not None:
        shown["since"] = time_text(status.since)
    reason = _reason(status)
    if reason:
        shown["reason"] = reason
    shown |= {"revision": revision, "applied": status.applied_revision, "here": status.delivered_here}
    shown |= _settled(subscription)
    if status.delivered_here:
        shown["events"] = dict(status.events)
    shown["behind"] = {
        "offsets": status.lag,
        "oldest": None if status.oldest_timestamp is None else time_text(status.oldest_timestamp),
    }
    shown["positions"] = {
        address: {str(number): f"{offset:020d}" for number, offset in sorted(each.items())}
        for address, each in status.positions.items()
    }
    return shown


def _reason(status: SubscriptionStatus) -> str:
    """`gone: 410 from the sink; again at …`."""
    cause = ": ".join(filter(None, (status.reason.value if status.reason is not None else "", status.detail)))
    if status.next_attempt is None:
        return cause
    again = f"again at {time_text(status.next_attempt)}"
    return f"{cause}; {again}" if cause else again


def _settled(subscription: Subscription) -> dict[str, Json]:
    """The properties that were determined when the subscription was created or updated."""
    return {
        "guarantee": subscription.guarantee,
        "filter": subscription.filter.summary,
        "effective": _effective(subscription.delivery),
    }


def _effective(delivery: DeliverySettings) -> dict[str, Json]:
    retry = delivery.retry
    return {
        "order": delivery.order,
        "connections": delivery.connections,
        "window": delivery.window,
        "timeout": f"{delivery.timeout:g}s",
        "rate": None if delivery.rate is None else f"{delivery.rate:g}/s",
        "retry": {
            "min": f"{retry.min:g}s",
            "max": f"{retry.max:g}s",
            "attempts": retry.attempts,
            "within": f"{retry.within:g}s",
        },
    }


def discovery_document(rules: ManagerRules) -> dict[str, Json]:
    """The capabilities of a manager (CE 3.2.4); `protocols` are those that a sink rule of the policy has."""
    allowed = {protocol for rule in rules.sinks for protocol in rule.protocols}
    return {
        "operations": [each for each in OPERATIONS if each in rules.operations],
        "protocols": [each.value for each in SinkProtocol if each.value.lower() in allowed],
        "dialects": [*sorted(rules.dialects)],
        "limits": {
            "subscriptions": rules.limits.subscriptions,
            "user": rules.limits.user,
            "object": rules.limits.object,
        },
    }

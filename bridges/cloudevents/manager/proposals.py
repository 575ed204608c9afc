"""Proposed subscriptions: realized under the policy, and checked against their owner's rights."""

from __future__ import annotations

import json
from typing import Final

from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.sink import SinkGrant
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.errors import ApiError, ErrorCode, invalid
from bridges.cloudevents.manager.interfaces import CheckSink
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.model.values import InvalidSubscription, Mistake
from bridges.cloudevents.subscription.parse import StoredSecrets
from bridges.cloudevents.subscription.policy_check import denials_in
from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules


class ProposalValidator:
    """Makes subscriptions from request bodies; stores nothing."""

    def __init__(
        self,
        rules: ManagerRules,
        codec: SubscriptionCodec,
        check_sink: CheckSink,
        registry: SubscriptionRegistry,
        metrics: ManagerMetrics,
    ) -> None:
        self._rules: Final = rules
        self._codec: Final = codec
        self._check_sink: Final = check_sink
        self._registry: Final = registry
        self._metrics: Final = metrics

    def realize(
        self,
        body: bytes,
        owner: str,
        now_ms: int,
        *,
        id: str | None = None,
        entry: RegistryEntry | None = None,
        secrets: StoredSecrets | None = None,
    ) -> Subscription:
        """The subscription that `body` proposes; raises ApiError with every mistake, or `forbidden`.

        `id`: that of the request's address; None: the body's own, or a new one. `secrets` are those of an import.
        """
        stored = entry.subscription if entry is not None else None
        try:
            subscription = self._codec.parse(body, id=id, owner=owner, now_ms=now_ms, stored=stored, secrets=secrets)
        except InvalidSubscription as error:
            for reason in denials_in(error.mistakes):
                self._metrics.egress_denied(reason)
            raise invalid(error.mistakes) from None
        self._check_rights(owner, subscription)
        self._check_unindexed_limit(subscription)
        return subscription

    async def check_sink(
        self, subscription: Subscription, entry: RegistryEntry | None, callback: str | None
    ) -> SinkGrant:
        """Check whether events may be sent to the sink, and return its rate; raises ApiError."""
        previous, granted = None, None
        if entry is not None and entry.pending_consent is None:
            previous, granted = entry.subscription, entry.granted
        try:
            return await self._check_sink(subscription, previous, granted, callback)
        except InvalidSubscription as error:
            raise invalid(error.mistakes) from None

    def _check_rights(self, owner: str, subscription: Subscription) -> None:
        """Check the right `subscribe` on every source (section 5 of docs/subscriptions.md)."""
        named = subscription.config.addresses
        if named is None and not self._rules.subscribable(owner):
            raise ApiError(ErrorCode.FORBIDDEN, "you may not subscribe to any event stream of this manager")
        denied = [each for each in named or () if not self._rules.may_subscribe(owner, each)]
        if denied:
            raise ApiError(ErrorCode.FORBIDDEN, "you may not subscribe to " + ", ".join(map(json.dumps, denied)))

    def _check_unindexed_limit(self, subscription: Subscription) -> None:
        most = self._rules.limits.unindexed
        if not subscription.filter.unindexed:
            return
        others = sum(
            each.subscription.filter.unindexed and each.stored.id != subscription.id for each in self._registry
        )
        if others >= most:
            text = (
                f"this manager evaluates at most {most} filters for every event; "
                "add exact, prefix or suffix on an attribute"
            )
            raise invalid([Mistake("/filter", text)])

"""Subscriptions as they come and as they are stored, under the rules of one policy."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Final

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.subscription.allowed import not_allowed
from bridges.cloudevents.subscription.model import RefreshToken, SinkProtocol
from bridges.cloudevents.subscription.parse import parse
from bridges.cloudevents.subscription.sealed import SubscriptionKeys, from_stored, renewed, sealed_with, to_stored
from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules


class SubscriptionFormat:
    """Reads and writes the objects of one manager; a reload makes another one."""

    def __init__(
        self,
        rules: ManagerRules,
        keys: SubscriptionKeys | None,
        offered: Collection[SinkProtocol],
    ) -> None:
        """`keys` None: the policy has none. `offered`: the protocols that this gateway has libraries for."""
        self._rules: Final = rules
        self._keys: Final = keys
        self.offered: Final = frozenset(offered)

    def parse(
        self, body: bytes, *, id: str | None, owner: str, now_ms: int, stored: Subscription | None = None
    ) -> Subscription:
        """A proposal, realized; `id` is that of the request's address. Raises Invalid with every mistake."""
        offered, new_id = self.offered, str(uuid.uuid4())
        return parse(
            body, self._rules, id=id, new_id=new_id, owner=owner, now_ms=now_ms, stored=stored, offered=offered
        )

    def renew(self, subscription: Subscription, credential: RefreshToken) -> bytes:
        """As JSON, with another token."""
        return self.dump(renewed(subscription, credential))

    def dump(self, subscription: Subscription) -> bytes:
        """As JSON, secrets sealed."""
        return to_stored(subscription, self._rules, self._keys)

    def load(self, document: bytes) -> Subscription:
        """What `dump` made; raises Invalid, or ValueError, where it cannot be read."""
        return from_stored(document, self._rules, self._keys)

    def outdated(self, document: bytes) -> bool:
        """Whether secrets in what `dump` made are sealed under another key than the active one."""
        return self._keys is not None and sealed_with(document) not in (None, self._keys.active)

    def objection(self, subscription: Subscription) -> Reason | None:
        """Why it may not be delivered under this policy; None: it may."""
        if subscription.locked:
            return Reason.CREDENTIAL
        if not_allowed(subscription, self._rules):
            return Reason.POLICY
        named, owner = subscription.config.addresses, subscription.owner
        if named is None:
            return None if self._rules.subscribable(owner) else Reason.POLICY
        return None if all(self._rules.may_subscribe(owner, each) for each in named) else Reason.POLICY

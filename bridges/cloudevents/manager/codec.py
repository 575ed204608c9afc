"""Parses and encodes subscriptions under the rules of one policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import Final

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.model.values import Json, RefreshToken, SinkProtocol
from bridges.cloudevents.subscription.parse import StoredSecrets, parse
from bridges.cloudevents.subscription.policy_check import policy_violations
from bridges.cloudevents.subscription.stored_form import (
    SubscriptionKeys,
    export_secrets,
    from_stored,
    import_secrets,
    renewed,
    to_stored,
)
from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules


class SubscriptionCodec:
    """Parses and encodes the objects of one manager; a reload replaces it."""

    def __init__(
        self,
        rules: ManagerRules,
        keys: SubscriptionKeys | None,
        protocols: Collection[SinkProtocol],
        may_log_in: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`keys` is None if the policy has none. `protocols` are the protocols whose libraries are installed.

        `may_log_in`: whether a name can be a user of the scope.
        """
        self._rules: Final = rules
        self._keys: Final = keys
        self._may_log_in: Final = may_log_in
        self.protocols: Final = frozenset(protocols)

    def parse(
        self,
        body: bytes,
        *,
        id: str | None,
        owner: str,
        now_ms: int,
        stored: Subscription | None = None,
        secrets: StoredSecrets | None = None,
    ) -> Subscription:
        """Parse and realize a proposal; `id` comes from the request's address.

        Raises InvalidSubscription with every mistake.
        """
        protocols, new_id = self.protocols, str(uuid.uuid4())
        return parse(
            body, self._rules, id=id, new_id=new_id, owner=owner, now_ms=now_ms, stored=stored, secrets=secrets,
            protocols=protocols,
        )  # fmt: skip

    def renew(self, subscription: Subscription, credential: RefreshToken) -> bytes:
        """Encode as JSON, with a renewed token."""
        return self.dump(renewed(subscription, credential))

    def dump(self, subscription: Subscription) -> bytes:
        """Encode as JSON, with encrypted secrets."""
        return to_stored(subscription, self._rules, self._keys)

    def load(self, record: Json) -> Subscription:
        """Decode the JSON of `dump`; raises InvalidSubscription or ValueError if that is impossible."""
        return from_stored(record, self._rules, self._keys)

    def export_secrets(self, subscription: Subscription) -> str | None:
        """Encrypt the secrets for an import elsewhere; None if there are none, or no keys."""
        return None if self._keys is None else export_secrets(subscription, self._rules, self._keys)

    def import_secrets(self, text: str, id: str, owner: str) -> StoredSecrets | None:
        """Decrypt secrets of an export; None if that is impossible under this policy."""
        return import_secrets(text, self._rules, id, owner, self._keys)

    def outdated(self, subscription: Subscription) -> bool:
        """Whether the stored secrets are encrypted with another key than the active one."""
        return self._keys is not None and subscription.encryption_key not in (None, self._keys.active)

    @property
    def keys(self) -> Collection[str]:
        """The ids of the keys that the policy has."""
        return () if self._keys is None else self._keys.ids

    def hold_reason(self, subscription: Subscription) -> Reason | None:
        """The reason why this policy does not allow the subscription; None if it does."""
        if subscription.secrets_unreadable:
            return Reason.CREDENTIAL
        if not self._may_log_in(subscription.owner) or policy_violations(subscription, self._rules):
            return Reason.POLICY
        named, owner = subscription.config.addresses, subscription.owner
        if named is None:
            return None if self._rules.subscribable(owner) else Reason.POLICY
        return None if all(self._rules.may_subscribe(owner, each) for each in named) else Reason.POLICY

"""Subscriptions as they are stored: the realized object, its secrets sealed under the key ring. Pure."""

from __future__ import annotations

from typing import Protocol

from bridges.cloudevents.subscription.subscription import Subscription
from policies.subscriptions import ManagerRules


class SecretSealer(Protocol):
    """Seals bytes for storage; opens only with the same `bound`."""

    def seal(self, content: bytes, bound: bytes) -> bytes:
        """The sealed content."""


class SecretOpener(Protocol):
    """Opens what any gateway with the same key ring sealed."""

    def open(self, sealed: bytes, bound: bytes) -> bytes | None:
        """The content; None if no key of the ring opens it, or `bound` is another."""


def to_stored(subscription: Subscription, rules: ManagerRules, sealer: SecretSealer | None) -> bytes:
    """The subscription as the store keeps it; `sealer` None: there are no keys, and then no secrets either."""
    raise NotImplementedError


def from_stored(document: bytes, rules: ManagerRules, opener: SecretOpener | None) -> Subscription:
    """The stored subscription; `locked` if it has secrets that cannot be opened. Raises `Invalid`.

    What a newer policy does not allow is no mistake here: see `policy_mistakes`.
    """
    raise NotImplementedError

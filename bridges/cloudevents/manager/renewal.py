"""Stores a renewed token in the newest version of its subscription, by compare-and-set."""

from __future__ import annotations

from typing import Final

from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.envelope import encode_envelope
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.model.values import RefreshToken
from gateway.state.subscriptions.store import Changed, StoredSubscription, SubscriptionStore

_ATTEMPTS: Final = 5
"""Versions in a row that may be stored by others meanwhile."""


async def store_renewed(
    manager: str,
    id: str,
    registry: SubscriptionRegistry,
    store: SubscriptionStore,
    codec: SubscriptionCodec,
    before: RefreshToken,
    renewed: RefreshToken,
) -> StoredSubscription:
    """Replace the token `before`; raises Changed if the newest version has another one, SubscriptionsUnavailable."""
    entry = registry.get(id)
    for _ in range(_ATTEMPTS):
        if entry is None or not _has(entry, before):
            break
        document = encode_envelope(entry.envelope(codec.renew(entry.subscription, renewed)))
        try:
            return await store.replace(manager, id, document, entry.stored.revision)
        except Changed:
            entry = await registry.read_one(id)
    raise Changed(id)


def _has(entry: RegistryEntry, token: RefreshToken) -> bool:
    credential = entry.subscription.credential
    if not isinstance(credential, RefreshToken):
        return False
    return (credential.refresh_token, credential.endpoint) == (token.refresh_token, token.endpoint)

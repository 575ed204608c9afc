"""Re-encrypts stored secrets with the active key after a key rotation, so that old keys can be removed."""

from __future__ import annotations

from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.envelope import encode_envelope
from bridges.cloudevents.manager.registry import SubscriptionRegistry
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import Changed, SubscriptionStore, SubscriptionsUnavailable

LOG = get_logger(__name__)


async def reencrypt_secrets(
    manager: str, registry: SubscriptionRegistry, store: SubscriptionStore, codec: SubscriptionCodec
) -> bool:
    """Re-encrypt the secrets of other keys; returns False if some could not be stored, so that a later call repeats it.

    Secrets that no key of the ring decrypts stay as they are.
    """
    done, sealed = True, 0
    for entry in list(registry):
        stored = entry.stored
        if entry.subscription.secrets_unreadable or not codec.outdated(entry.subscription):
            continue
        again = entry.envelope(codec.dump(entry.subscription))
        try:
            await registry.record(await store.replace(manager, stored.id, encode_envelope(again), stored.revision))
            sealed += 1
        except (Changed, SubscriptionsUnavailable):
            done = False
    if sealed:
        LOG.info("subscription secrets encrypted with the active key", manager=manager, subscriptions=sealed)
    return done

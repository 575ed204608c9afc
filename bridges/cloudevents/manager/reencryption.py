"""After a rotation of keys: stored subscriptions are sealed again under the active key, so that an old one can go."""

from __future__ import annotations

from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.envelope import decode_envelope, encode_envelope
from bridges.cloudevents.manager.registry import SubscriptionRegistry
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import Changed, SubscriptionStore, SubscriptionsUnavailable

LOG = get_logger(__name__)


async def reencrypt_secrets(
    manager: str, registry: SubscriptionRegistry, store: SubscriptionStore, codec: SubscriptionCodec
) -> bool:
    """Seal what another key sealed; False: the store was away, or somebody else changed one, so ask again later.

    What no key of the ring opens stays as it is.
    """
    done, sealed = True, 0
    for entry in list(registry):
        stored = entry.stored
        if entry.subscription.secrets_unreadable or not codec.outdated(decode_envelope(stored.document).object):
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

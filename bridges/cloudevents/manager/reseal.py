"""After a rotation of keys: stored subscriptions are sealed again under the active key, so that an old one can go."""

from __future__ import annotations

from bridges.cloudevents.manager.book import SubscriptionBook
from bridges.cloudevents.manager.envelope import open_envelope, seal_envelope
from bridges.cloudevents.manager.format import SubscriptionFormat
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import Changed, SubscriptionStore, SubscriptionsUnavailable

LOG = get_logger(__name__)


async def reseal(manager: str, book: SubscriptionBook, store: SubscriptionStore, form: SubscriptionFormat) -> bool:
    """Seal what another key sealed; False: the store was away, or somebody else changed one, so ask again later.

    What no key of the ring opens stays as it is.
    """
    done, sealed = True, 0
    for known in list(book):
        stored = known.stored
        if known.subscription.locked or not form.outdated(open_envelope(stored.document).object):
            continue
        again = known.envelope(form.dump(known.subscription))
        try:
            await book.note(await store.replace(manager, stored.id, seal_envelope(again), stored.revision))
            sealed += 1
        except (Changed, SubscriptionsUnavailable):
            done = False
    if sealed:
        LOG.info("subscriptions sealed under the active key", manager=manager, subscriptions=sealed)
    return done

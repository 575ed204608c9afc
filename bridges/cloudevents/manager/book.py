"""The subscriptions of one manager as this process knows them; follows the store, and tells delivery.

Reads are answered from here, also while the store is away. A change is applied here before it is answered, and the
changes of other processes when the store tells of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.manager.consents import PendingConsent
from bridges.cloudevents.manager.envelope import Envelope, open_envelope
from bridges.cloudevents.manager.format import SubscriptionFormat
from bridges.cloudevents.manager.ports import Delivery
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.model import Invalid
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import StoredSubscription, SubscriptionStore, SubscriptionsUnavailable
from gateway.tasks import set_within

LOG: Final = get_logger(__name__)
_EVERY: Final = 60.0
"""Seconds after which the store is read anew, whatever it told."""
_SLICE: Final = 50
"""Subscriptions that a reload looks at in one turn of the loop."""
_AGAIN: Final = 1.0
"""Seconds after which a store that was away is asked again."""


class KnownSubscription(NamedTuple):
    """A subscription with its revision, and where it began to read."""

    stored: StoredSubscription
    subscription: Subscription
    starts: StartOffsets
    granted: float | None = None
    """Deliveries a second that its sink allows; None: any."""
    consent: PendingConsent | None = None
    """None: the sink has consented, or need not."""
    hold: Reason | None = None
    """Why delivery was told not to begin."""
    edition: int = 1
    """See `Envelope`."""

    def envelope(self, object: bytes) -> Envelope:
        """What is stored when its secrets are written anew, and nothing else changes."""
        return Envelope(self.starts, object, self.granted, self.consent, self.edition)


class SubscriptionBook:
    """Used on the loop."""

    def __init__(self, name: str, store: SubscriptionStore, form: SubscriptionFormat, delivery: Delivery) -> None:
        """`name`: the manager's in the store, scope and name."""
        self._name: Final = name
        self._store: Final = store
        self._form = form
        self._delivery: Final = delivery
        self._known: Final[dict[str, KnownSubscription]] = {}
        self._locks: Final[dict[str, asyncio.Lock]] = {}
        self._refreshing: Final = asyncio.Lock()
        self._gone: Final[dict[str, int]] = {}
        """The revisions of what was deleted since the store was last read: an older reading must not bring it back."""
        self._changed: Final = asyncio.Event()
        self.loaded = False
        """Whether the store was read once."""

    def __iter__(self) -> Iterator[KnownSubscription]:
        return iter(sorted(self._known.values(), key=lambda each: each.stored.id))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, id: str) -> KnownSubscription | None:
        """The subscription with this id."""
        return self._known.get(id)

    async def load(self) -> None:
        """Read the store once, if that was not done yet; raises SubscriptionsUnavailable."""
        if not self.loaded:
            await self.refresh()

    async def refresh(self) -> None:
        """Take over all that has changed in the store; raises SubscriptionsUnavailable."""
        async with self._refreshing:
            self._gone.clear()
            revision, stored = await self._store.load(self._name)
            newer = {id for id, each in self._known.items() if each.stored.revision > revision}
            for id in self._known.keys() - stored.keys() - newer:
                await self.forget(id)
            for each in stored.values():
                await self.apply(each)
            self.loaded = True

    async def apply(self, stored: StoredSubscription) -> None:
        """Deliver this revision from now on, unless a newer one is known."""
        async with self._lock(stored.id):
            known = self._known.get(stored.id)
            latest = known.stored.revision if known is not None else self._gone.get(stored.id, 0)
            if latest >= stored.revision:
                return
            entry = self._read(stored)
            if entry is not None:
                await self._put(entry)

    def _read(self, stored: StoredSubscription) -> KnownSubscription | None:
        try:
            envelope = open_envelope(stored.document)
            subscription, (starts, _, granted, consent, edition) = self._form.load(envelope.object), envelope
            return KnownSubscription(stored, subscription, starts, granted, consent, edition=edition)
        except (Invalid, ValueError, KeyError, TypeError) as error:
            LOG.error("subscription cannot be read", manager=self._name, id=stored.id, error=type(error).__name__)
            return None

    async def note(self, stored: StoredSubscription) -> None:
        """Remember a revision that delivery made itself: it need not be told, and may be waiting for this."""
        async with self._lock(stored.id):
            entry = self._read(stored)
            known = self._known.get(stored.id)
            if entry is not None and known is not None:
                self._known[stored.id] = entry._replace(hold=known.hold)

    async def forget(self, id: str) -> None:
        """Deliver it no more."""
        async with self._lock(id):
            known = self._known.pop(id, None)
            if known is not None:
                self._gone[id] = known.stored.revision
                await self._delivery.remove(id)

    async def configure(self, form: SubscriptionFormat, *, same_rules: bool) -> None:
        """Go on under another policy: what it does not allow any more is suspended, and its position stays.

        `same_rules`: for this manager only rights may have changed, so that most subscriptions need not be told.
        """
        self._form = form
        for number, (id, known) in enumerate(list(self._known.items()), 1):
            async with self._lock(id):
                if self._known.get(id) is known and not (same_rules and self._hold(known) is known.hold):
                    await self._put_anew(known)
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    async def _put_anew(self, known: KnownSubscription) -> None:
        entry = self._read(known.stored)
        if entry is not None:
            await self._put(entry)

    async def run(self, each_round: Callable[[], Awaitable[None]]) -> None:
        """Follow the store until cancelled; `each_round` is awaited once a minute at least."""
        end = self._store.follow(self._name, self._changed.set)
        try:
            while True:
                await self._round()
                await each_round()
                await set_within(self._changed, _EVERY if self.loaded else _AGAIN)
        finally:
            end()

    async def _round(self) -> None:
        self._changed.clear()
        try:
            await self.refresh()
        except SubscriptionsUnavailable:
            LOG.warning("subscriptions cannot be read now", manager=self._name)

    async def _put(self, entry: KnownSubscription) -> None:
        hold = self._hold(entry)
        self._known[entry.stored.id] = entry._replace(hold=hold)
        subscription = within(entry.subscription, entry.granted)
        await self._delivery.put(subscription, entry.stored.revision, entry.starts, hold, entry.edition)

    def _hold(self, entry: KnownSubscription) -> Reason | None:
        """Why it may not be delivered now."""
        awaited = None if entry.consent is None else Reason.CONSENT
        return self._form.objection(entry.subscription) or awaited

    def _lock(self, id: str) -> asyncio.Lock:
        return self._locks.setdefault(id, asyncio.Lock())


def within(subscription: Subscription, granted: float | None) -> Subscription:
    """The subscription with a rate that its sink allows (Web Hooks for Event Delivery, 4.2)."""
    delivery = subscription.delivery
    if granted is None or (delivery.rate is not None and delivery.rate <= granted):
        return subscription
    return replace(subscription, delivery=delivery._replace(rate=granted))

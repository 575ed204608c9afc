"""The subscriptions of one manager as this process knows them: follows the store and updates delivery.

Reads are answered from here, even while the store is unavailable. A change is applied here before it is answered;
changes of other processes are applied when the store reports them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.consents import PendingConsent
from bridges.cloudevents.manager.envelope import Envelope, read_envelope
from bridges.cloudevents.manager.interfaces import SubscriptionDelivery
from bridges.cloudevents.model.values import InvalidSubscription
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.pending_changes import PendingChanges
from gateway.state.subscriptions.store import Change, StoredSubscription, SubscriptionStore, SubscriptionsUnavailable
from gateway.tasks import KeyedLocks, TimeSlice, set_within

LOG: Final = get_logger(__name__)
_REFRESH_INTERVAL: Final = 60.0
"""Seconds after which the store is asked for its revision, with or without notifications."""
_ROUND_INTERVAL: Final = 1.0
"""The least seconds between two rounds."""
_RETRY_DELAY: Final = 1.0
"""Seconds before an unavailable store is read again."""


class RegistryEntry(NamedTuple):
    """A subscription with its stored revision and its start offsets."""

    stored: StoredSubscription
    subscription: Subscription
    start_offsets: StartOffsets
    granted: float | None = None
    """Deliveries per second that its sink allows; None for no limit."""
    pending_consent: PendingConsent | None = None
    """None if the sink has consented, or consent is not required."""
    hold_reason: Reason | None = None
    """The reason for which delivery is on hold; None if it is not."""
    edition: int = 1
    """See `Envelope`."""

    def envelope(self, object: bytes) -> Envelope:
        """The envelope to store when only the secrets in `object` change."""
        return Envelope(self.start_offsets, object, self.granted, self.pending_consent, self.edition)


class SubscriptionRegistry:
    """The entries of one manager; used on the event loop only."""

    def __init__(
        self, name: str, store: SubscriptionStore, codec: SubscriptionCodec, delivery: SubscriptionDelivery
    ) -> None:
        """`name`: the key of the manager in the store, its scope and name."""
        self._name: Final = name
        self._store: Final = store
        self._codec = codec
        self._delivery: Final = delivery
        self._entries: Final[dict[str, RegistryEntry]] = {}
        self._locks: Final = KeyedLocks()
        self._refreshing: Final = asyncio.Lock()
        self._deleted_revisions: Final[dict[str, int]] = {}
        """Revisions deleted since the store was last read: an older read must not restore them."""
        self._latest_revision = 0
        """The newest revision that the store has shown."""
        self._changed: Final = asyncio.Event()
        self._pending: Final = PendingChanges()
        self._noted = self._unsure = False
        """Whether the store has told of changes; whether some may have come before it was followed."""
        self._applied = 0
        """All changes up to this revision are applied."""
        self._order: Final[list[str]] = []
        """The ids in their order."""
        self.loaded = False
        """Whether the store was read once."""

    def __iter__(self) -> Iterator[RegistryEntry]:
        return self.after("")

    def after(self, id: str) -> Iterator[RegistryEntry]:
        """The subscriptions with greater ids, in their order, as long as they exist."""
        for each in self._order[bisect_right(self._order, id) :]:
            entry = self._entries.get(each)
            if entry is not None:
                yield entry

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, id: str) -> RegistryEntry | None:
        """The subscription with this id."""
        return self._entries.get(id)

    def encryption_keys(self) -> Counter[str]:
        """The number of subscriptions with secrets, by the id of the key; those of the policy are shown at 0, too."""
        found = Counter(dict.fromkeys(self._codec.keys, 0))
        keys = (entry.subscription.encryption_key for entry in self._entries.values())
        found.update(key for key in keys if key is not None)
        return found

    async def load(self) -> None:
        """Read the store unless it was read before; raises SubscriptionsUnavailable."""
        if not self.loaded:
            await self.refresh()

    async def refresh(self) -> None:
        """Read the whole store, and apply all changes; raises SubscriptionsUnavailable."""
        async with self._refreshing:
            self._pending.take(0)
            self._deleted_revisions.clear()
            latest = self._latest_revision
            try:
                revision, stored = await self._store.load(self._name)
            except SubscriptionsUnavailable:
                self._pending.add(None)
                raise
            if revision < latest or self._knows_more_than(revision, stored):
                await self._start_over(revision, stored)
            newer = {id for id, each in self._entries.items() if each.stored.revision > revision}
            for id in self._entries.keys() - stored.keys() - newer:
                await self.remove(id)
            turn = TimeSlice()
            for each in stored.values():
                await self.apply(each)
                await turn.pause()
            self._set_applied(revision)
            self.loaded = True

    async def catch_up(self) -> None:
        """Apply the announced changes, and read no other subscriptions; raises SubscriptionsUnavailable."""
        async with self._refreshing:
            changed = self._pending.take(self._applied) if self.loaded else None
            if changed:
                await self._apply_changes(changed)
        if changed is None:
            await self.refresh()

    async def caught_up(self) -> bool:
        """Apply all that the store has now; False if it does not answer."""
        try:
            stored = await self._store.revision(self._name)
            if self._applied < stored or not self.loaded:
                await self.catch_up()
            if self._applied < stored:  # not announced yet
                await self.refresh()
        except SubscriptionsUnavailable:
            return False
        return True

    async def refresh_one(self, id: str) -> None:
        """Apply what the store has of one subscription; raises SubscriptionsUnavailable."""
        async with self._refreshing:
            known = self._entries.get(id)
            found = await self._store.load_some(self._name, (id,))
            if id in found:
                await self.apply(found[id])
            elif self._entries.get(id) is known:
                await self.remove(id)

    async def read_one(self, id: str) -> RegistryEntry | None:
        """What the store has of one subscription, without applying it; raises SubscriptionsUnavailable."""
        found = await self._store.load_some(self._name, (id,))
        return self._read(found[id]) if id in found else None

    async def _apply_changes(self, changed: Mapping[str, int]) -> None:
        self._deleted_revisions.clear()
        try:
            found = await self._store.load_some(self._name, changed)
        except SubscriptionsUnavailable:
            self._pending.add(None)
            raise
        turn = TimeSlice()
        for id, revision in changed.items():
            known = self._entries.get(id)
            if id in found:
                await self.apply(found[id])
            elif known is not None and known.stored.revision < revision:
                await self.remove(id)
            await turn.pause()
        self._set_applied(max(changed.values()))

    def _set_applied(self, revision: int) -> None:
        self._applied = revision
        self._latest_revision = max(self._latest_revision, revision)
        self._delivery.set_applied(revision)

    def _knows_more_than(self, revision: int, stored: Mapping[str, StoredSubscription]) -> bool:
        """Whether the store is an older copy that has been changed since, up to revisions that it has had before."""
        entries = (each.stored for each in self._entries.values() if each.stored.revision <= revision)
        pairs = ((known, stored.get(known.id)) for known in entries)
        return any(found is not None and found.revision <= known.revision and found != known for known, found in pairs)

    async def _start_over(self, revision: int, stored: Mapping[str, StoredSubscription]) -> None:
        """Accept a store that is empty or an older copy, and whose revisions start again."""
        lost = [each for each in self._entries.values() if stored.get(each.stored.id) != each.stored]
        LOG.error("the store has lost subscriptions", manager=self._name, subscriptions=len(lost), revision=revision)
        for each in lost:
            if each.stored.id in stored:  # applied next, and delivered from its position: a removal would delete that
                self._entries[each.stored.id] = each._replace(stored=each.stored._replace(revision=0))
            else:
                await self.remove(each.stored.id)
        self._deleted_revisions.clear()
        self._latest_revision = revision

    async def apply(self, stored: StoredSubscription) -> None:
        """Deliver this revision from now on, unless a newer one is known."""
        async with self._locks.of(stored.id):
            known = self._entries.get(stored.id)
            latest = known.stored.revision if known is not None else self._deleted_revisions.get(stored.id, 0)
            if latest >= stored.revision:
                return
            self._latest_revision = max(self._latest_revision, stored.revision)
            entry = self._read(stored)
            if entry is not None:
                await self._put(entry)

    def _read(self, stored: StoredSubscription) -> RegistryEntry | None:
        try:
            (starts, _, granted, consent, edition), object = read_envelope(stored.document)
            subscription = self._codec.load(object)
            return RegistryEntry(stored, subscription, starts, granted, consent, edition=edition)
        except (InvalidSubscription, ValueError, KeyError, TypeError, RecursionError) as error:
            LOG.error("subscription cannot be read", manager=self._name, id=stored.id, error=type(error).__name__)
            return None

    async def record(self, stored: StoredSubscription) -> None:
        """Record a revision that delivery itself made; it is not restarted, since it may wait for this.

        Nothing is recorded on top of a version that is not in force yet: the store announces the revision, and it is
        applied as any other, with what the owner has changed.
        """
        lock = self._locks.of(stored.id)
        if lock.locked():
            return
        async with lock:
            entry = self._read(stored)
            known = self._entries.get(stored.id)
            if entry is not None and known is not None and entry.edition == known.edition:
                self._entries[stored.id] = entry._replace(hold_reason=known.hold_reason)
                self._delivery.renew(with_granted_rate(entry.subscription, entry.granted), stored.revision)

    async def remove(self, id: str) -> None:
        """Remove an entry and stop its delivery."""
        async with self._locks.of(id):
            known = self._entries.pop(id, None)
            if known is not None:
                del self._order[bisect_left(self._order, id)]
                self._deleted_revisions[id] = known.stored.revision
                await self._delivery.remove(id)

    async def configure(self, codec: SubscriptionCodec, *, same_rules: bool) -> None:
        """Continue under another policy: suspend what it no longer allows, and keep its position.

        `same_rules`: only rights may have changed for this manager, so that most entries stay as they are.
        """
        self._codec = codec
        turn = TimeSlice()
        for id, known in list(self._entries.items()):
            async with self._locks.of(id):
                if self._entries.get(id) is known and not (
                    same_rules and self._hold_reason(known) is known.hold_reason
                ):
                    await self._reload(known)
            await turn.pause()

    async def _reload(self, known: RegistryEntry) -> None:
        entry = self._read(known.stored)
        if entry is not None:
            await self._put(entry)

    async def run(self, each_round: Callable[[], Awaitable[None]]) -> None:
        """Follow the store until cancelled; `each_round` is awaited at least once a minute."""
        end, loop = self._store.follow(self._name, self._note), asyncio.get_running_loop()
        round_at = loop.time()
        try:
            while True:
                done = await self._try_catch_up()
                if loop.time() >= round_at:
                    await each_round()
                    round_at = loop.time() + _ROUND_INTERVAL
                if not await set_within(self._changed, _REFRESH_INTERVAL if done else _RETRY_DELAY):
                    await self._compare_revisions()
        finally:
            end()

    def _note(self, changes: Sequence[Change] | None) -> None:
        if changes is None and not self._noted:
            self._unsure = True  # it has been read, mostly, and the revision tells if nothing came between
        else:
            self._pending.add(changes)
        self._noted = True
        self._changed.set()

    async def _try_catch_up(self) -> bool:
        """Returns whether the store could be read."""
        self._changed.clear()
        if self._unsure and self.loaded:
            self._unsure = False
            await self._compare_revisions()
        try:
            await self.catch_up()
        except SubscriptionsUnavailable:
            LOG.warning("subscriptions cannot be read now", manager=self._name)
            return False
        return True

    async def _compare_revisions(self) -> None:
        """Read the whole store if it has changes that it has not announced."""
        with suppress(SubscriptionsUnavailable):
            if await self._store.revision(self._name) == self._applied:
                return
        self._pending.add(None)

    async def _put(self, entry: RegistryEntry) -> None:
        hold = self._hold_reason(entry)
        if entry.stored.id not in self._entries:
            insort(self._order, entry.stored.id)
        self._entries[entry.stored.id] = entry._replace(hold_reason=hold)
        subscription = with_granted_rate(entry.subscription, entry.granted)
        await self._delivery.put(subscription, entry.stored.revision, entry.start_offsets, hold, entry.edition)

    def _hold_reason(self, entry: RegistryEntry) -> Reason | None:
        """The reason for which it must not be delivered now; None if it may."""
        awaited = None if entry.pending_consent is None else Reason.CONSENT
        return self._codec.hold_reason(entry.subscription) or awaited


def with_granted_rate(subscription: Subscription, granted: float | None) -> Subscription:
    """The subscription with a rate that its sink allows (Web Hooks for Event Delivery, 4.2)."""
    delivery = subscription.delivery
    if granted is None or (delivery.rate is not None and delivery.rate <= granted):
        return subscription
    return replace(subscription, delivery=delivery._replace(rate=granted))

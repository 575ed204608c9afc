"""The operations on subscriptions, whichever binding they come by (CE 3.2.4 to 3.2.8)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from bridges.cloudevents.delivery.metrics import ConsentResult, ManagerMetrics
from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.manager.book import KnownSubscription, SubscriptionBook
from bridges.cloudevents.manager.consents import NO_CONSENT, consent_address
from bridges.cloudevents.manager.envelope import Envelope, open_envelope, seal_envelope
from bridges.cloudevents.manager.errors import ApiError, ErrorCode, invalid, not_found
from bridges.cloudevents.manager.format import SubscriptionFormat
from bridges.cloudevents.manager.ports import Caller, CheckSink, Delivery, FindStarts
from bridges.cloudevents.manager.probe import DeliveryProbe, ProbeResult
from bridges.cloudevents.manager.proposals import Proposals
from bridges.cloudevents.manager.reseal import reseal
from bridges.cloudevents.manager.views import (
    ShownSubscription,
    SubscriptionPage,
    discovery_document,
    shown_to_manager,
    status_document,
    without_query,
)
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.model import Invalid, Json, Mistake, RefreshToken
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import (
    AlreadyExists,
    Changed,
    LimitReached,
    StoredSubscription,
    SubscriptionLimits,
    SubscriptionStore,
    SubscriptionsUnavailable,
)
from policies.model.scopes.subscriptions import Operation
from policies.subscriptions import ManagerRules

LOG: Final = get_logger(__name__)
_TRIES: Final = 5
"""Attempts of a change that others overtake, where the caller does not say which revision it is about."""
_RETRY: Final = 5
"""Seconds that callers are asked to wait for the store or for Kafka."""
T = TypeVar("T")


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class ManagerParts(NamedTuple):
    """What a manager is made of; `form`, `check_sink` and `find_starts` go by the policy."""

    store: SubscriptionStore
    delivery: Delivery
    form: SubscriptionFormat
    check_sink: CheckSink
    find_starts: FindStarts
    metrics: ManagerMetrics
    public_url: str | None = None
    """Where sinks reach the API of the scope; None: no consent by callback."""
    now_ms: Callable[[], int] = wall_clock_ms


class QueryFilter(NamedTuple):
    """Which subscriptions a query wants: `limit` None is all, `after` is the last id of the page before."""

    protocol: str | None = None
    state: str | None = None
    limit: int | None = None
    after: str = ""


class SubscriptionManager:
    """A collection of subscriptions of one scope; every operation raises ApiError and then has changed nothing."""

    def __init__(self, rules: ManagerRules, parts: ManagerParts) -> None:
        self.rules = rules
        self._parts = parts
        self._sealed = False
        self.book: Final = SubscriptionBook(rules.full_name, parts.store, parts.form, parts.delivery)
        self._proposals = Proposals(rules, parts.form, parts.check_sink, self.book, parts.metrics)
        self._probe: Final = DeliveryProbe(rules.path, parts.delivery)

    async def configure(self, rules: ManagerRules, parts: ManagerParts, *, same_rules: bool) -> None:
        """Go on under another policy (reload); `parts` with the same store and delivery.

        `same_rules`: nothing has changed for this manager, except perhaps rights.
        """
        self.rules, self._parts, self._sealed = rules, parts, False
        self._proposals = Proposals(rules, parts.form, parts.check_sink, self.book, parts.metrics)
        await self.book.configure(parts.form, same_rules=same_rules)

    async def run(self) -> None:
        """Follow the store, and forget what ended long ago, until cancelled."""
        await self.book.run(self.sweep)

    # -- operations

    async def create(self, caller: Caller, body: bytes, *, dry_run: bool = False) -> ShownSubscription:
        """CE 3.2.4.1; `dry_run`: nothing is stored, nothing connected to."""
        self._offered("create")
        await self._loaded()
        return await self._create(caller, body, None, dry_run)

    async def retrieve(self, caller: Caller, id: str) -> ShownSubscription:
        """CE 3.2.4.2."""
        self._offered("retrieve")
        await self._loaded()
        return self._shown(caller, self._visible(caller, id))

    async def query(self, caller: Caller, wanted: QueryFilter = QueryFilter()) -> SubscriptionPage:  # noqa: B008
        """CE 3.2.4.3: those of the caller, or of everybody for those who manage, in the order of ids."""
        self._offered("query")
        await self._loaded()
        items: list[Mapping[str, Json]] = []
        last = ""
        for known in self.book:
            if known.stored.id > wanted.after and self._sees(caller, known) and await self._wanted(known, wanted):
                if wanted.limit is not None and len(items) >= wanted.limit:
                    return SubscriptionPage(items, last)
                items.append(self._shown(caller, known).document)
                last = known.stored.id
        return SubscriptionPage(items, None)

    async def update(
        self, caller: Caller, id: str, body: bytes, *, expected: Container[int] | None = None, dry_run: bool = False
    ) -> ShownSubscription:
        """CE 3.2.4.4: replaces the object; `expected` has the revisions that the caller means."""
        self._offered("update")
        await self._loaded()
        if self.rules.upsert and expected is None and self._find(caller, id) is None:
            self._offered("create")
            return (await self._create(caller, body, id, dry_run))._replace(created=not dry_run)

        async def attempt() -> ShownSubscription:
            known = self._own(caller, id, expected)
            subscription = self._proposals.realize(body, known.stored.owner, self._now(), id=id, known=known)
            if dry_run:
                return ShownSubscription(id, known.stored.revision, subscription.document)
            document, awaited = await self._admitted(subscription, known)
            stored = await self._parts.store.replace(self.rules.full_name, id, document, known.stored.revision)
            await self._applied(stored, "changed", caller)
            return ShownSubscription(id, stored.revision, subscription.document, awaited=awaited)

        return await self._changing(attempt, expected)

    async def delete(self, caller: Caller, id: str, *, expected: Container[int] | None = None) -> ShownSubscription:
        """CE 3.2.8: returns the object as it was last."""
        self._offered("delete")
        await self._loaded()

        async def attempt() -> ShownSubscription:
            known = self._visible(caller, id)
            _expect(known, expected)
            await self._parts.store.delete(self.rules.full_name, id, known.stored.revision)
            await self.book.forget(id)
            self._told("subscription deleted", caller, known.subscription)
            return self._shown(caller, known)

        return await self._changing(attempt, expected)

    def discover(self) -> dict[str, Json]:
        """CE 3.2.4: what this manager offers."""
        return discovery_document(self.rules)

    async def status(self, caller: Caller, id: str) -> dict[str, Json]:
        """How the delivery of a subscription goes; ours."""
        await self._loaded()
        known = self._visible(caller, id)
        status = await self._parts.delivery.status(id)
        return status_document(known.subscription, known.stored.revision, status)

    async def resume(self, caller: Caller, id: str) -> dict[str, Json]:
        """End a suspension, and return the status; ours."""
        await self._loaded()
        known = self._own(caller, id, None)
        if await self._parts.delivery.resume(id):
            self._told("subscription resumed", caller, known.subscription)
        return await self.status(caller, id)

    async def test(self, caller: Caller, id: str) -> ProbeResult:
        """Send one event of the type `io.scopegate.test` past the log; ours."""
        await self._loaded()
        self._own(caller, id, None)
        return await self._probe.send(id)

    async def confirm(self, id: str, key: str, rate: float | None) -> None:
        """A sink consents, and allows so many deliveries a second; raises ApiError for a key that is not its own."""
        await self._loaded()
        known = self.book.get(id)
        pending = known.consent if known is not None and known.consent is not None else NO_CONSENT
        if not pending.fits(key, self._now()) or known is None:
            raise ApiError(ErrorCode.FORBIDDEN, "this is not, or no longer, the address of a consent")
        envelope = open_envelope(known.stored.document)._replace(granted=rate, consent=None)
        try:
            stored = await self._parts.store.replace(
                self.rules.full_name, id, seal_envelope(envelope), known.stored.revision
            )
        except Changed:
            raise _changed() from None
        except SubscriptionsUnavailable:
            raise _unavailable() from None
        await self.book.apply(stored)
        self._parts.metrics.asked(ConsentResult.CONFIRMED)
        self._told("subscription consented", Caller(known.stored.owner), known.subscription)

    async def renew(self, id: str, credential: RefreshToken) -> None:
        """Store a token that was renewed; raises OSError where that is not possible now."""
        known = self.book.get(id)
        try:
            if known is None:
                raise Changed(id)
            renewed = self._parts.form.renew(known.subscription, credential)
            document = seal_envelope(known.envelope(renewed))
            stored = await self._parts.store.replace(self.rules.full_name, id, document, known.stored.revision)
        except (Changed, SubscriptionsUnavailable) as error:
            raise OSError("the subscription cannot be changed now") from error
        await self.book.note(stored)

    async def sweep(self) -> None:
        """Delete what ended longer ago than the policy keeps it, and seal anew what an old key sealed."""
        if self.book.loaded and not self._sealed:
            self._sealed = await reseal(self.rules.full_name, self.book, self._parts.store, self._parts.form)
        for known in list(self.book):
            with suppress(Changed, SubscriptionsUnavailable):  # the next round looks again
                ended = await self._ended(known)
                if ended is not None and ended + self.rules.keep_ended < self._now():
                    await self._parts.store.delete(self.rules.full_name, known.stored.id, known.stored.revision)
                    await self.book.forget(known.stored.id)

    # -- steps

    async def _create(self, caller: Caller, body: bytes, id: str | None, dry_run: bool) -> ShownSubscription:
        subscription = self._proposals.realize(body, caller.user, self._now(), id=id)
        if self.book.get(subscription.id) is not None:
            raise _exists()
        if dry_run:
            return ShownSubscription(subscription.id, 0, subscription.document)
        document, awaited = await self._admitted(subscription, None)
        limits = SubscriptionLimits(self.rules.limits.subscriptions, self.rules.limits.user)
        try:
            stored = await self._parts.store.create(
                self.rules.full_name, subscription.id, caller.user, document, limits
            )
        except AlreadyExists:
            raise _exists() from None
        except LimitReached as error:
            raise invalid([Mistake("", _LIMITS[error.which].format(error.most))]) from None
        except SubscriptionsUnavailable:
            raise _unavailable() from None
        await self._applied(stored, "created", caller)
        return ShownSubscription(stored.id, stored.revision, subscription.document, created=True, awaited=awaited)

    async def _changing(self, attempt: Callable[[], Awaitable[T]], expected: Container[int] | None) -> T:
        """Change what is there, again where somebody else was faster and the caller named no revision."""
        for _ in range(_TRIES):
            try:
                return await attempt()
            except Changed:
                await self._refresh()
                if expected is not None:
                    raise _changed() from None
            except SubscriptionsUnavailable:
                raise _unavailable() from None
        raise _changed()

    async def _starts(self, subscription: Subscription, known: StartOffsets | None) -> StartOffsets:
        try:
            return await self._parts.find_starts(subscription, known)
        except Invalid as error:
            raise invalid(error.mistakes) from None
        except AmqpError as error:
            LOG.warning("event streams cannot be read", manager=self.rules.full_name, error=str(error))
            raise ApiError(
                ErrorCode.UNAVAILABLE, "the event streams cannot be read now; try again", retry_after=_RETRY
            ) from None

    async def _admitted(self, subscription: Subscription, known: KnownSubscription | None) -> tuple[bytes, bool]:
        """What to store, and whether the sink's consent is awaited; raises ApiError where no event may go there."""
        url, address = self._parts.public_url, None
        if url is not None:
            address = consent_address(url + self.rules.path, subscription.id, self._now())
        grant = await self._proposals.check_sink(subscription, known, None if address is None else address.url)
        starts = await self._starts(subscription, None if known is None else known.starts)
        pending = address.pending if grant.pending and address is not None else None
        edition = 1 if known is None else known.edition + 1
        envelope = Envelope(starts, self._parts.form.dump(subscription), grant.rate, pending, edition)
        return seal_envelope(envelope), pending is not None

    async def _applied(self, stored: StoredSubscription, what: str, caller: Caller) -> None:
        await self.book.apply(stored)
        if (known := self.book.get(stored.id)) is not None:
            self._told(f"subscription {what}", caller, known.subscription)

    async def _loaded(self) -> None:
        if not self.book.loaded:
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self.book.refresh()
        except SubscriptionsUnavailable:
            raise _unavailable() from None

    # -- who sees what

    def _offered(self, operation: Operation) -> None:
        if operation not in self.rules.operations:
            raise ApiError(ErrorCode.UNSUPPORTED, f"this manager does not offer {operation}")

    def _sees(self, caller: Caller, known: KnownSubscription) -> bool:
        return caller.user == known.stored.owner or caller.user in self.rules.manage

    def _find(self, caller: Caller, id: str) -> KnownSubscription | None:
        known = self.book.get(id)
        return known if known is not None and self._sees(caller, known) and not self._gone(known) else None

    def _visible(self, caller: Caller, id: str) -> KnownSubscription:
        known = self._find(caller, id)
        if known is None:
            raise not_found()
        return known

    def _own(self, caller: Caller, id: str, expected: Container[int] | None) -> KnownSubscription:
        known = self._visible(caller, id)
        if known.stored.owner != caller.user:
            raise ApiError(ErrorCode.FORBIDDEN, "only its owner may do this; who manages sees and deletes")
        _expect(known, expected)
        return known

    def _shown(self, caller: Caller, known: KnownSubscription) -> ShownSubscription:
        document = known.subscription.document
        if known.stored.owner != caller.user:
            document = shown_to_manager(document)
        return ShownSubscription(known.stored.id, known.stored.revision, document)

    async def _wanted(self, known: KnownSubscription, wanted: QueryFilter) -> bool:
        if self._gone(known) or wanted.protocol not in (None, known.subscription.protocol):
            return False
        if wanted.state is None:
            return True
        status = await self._parts.delivery.status(known.stored.id)
        return wanted.state == (DeliveryState.ACTIVE if status is None else status.state)

    # -- ends

    def _gone(self, known: KnownSubscription) -> bool:
        expires = known.subscription.config.expires
        return expires is not None and expires + self.rules.keep_ended < self._now()

    async def _ended(self, known: KnownSubscription) -> int | None:
        """When it ended, in milliseconds since 1970."""
        config = known.subscription.config
        if config.expires is not None and config.expires < self._now():
            return int(config.expires)
        if config.max_events is None:
            return None
        status = await self._parts.delivery.status(known.stored.id)
        return status.since if status is not None and status.state is DeliveryState.ENDED else None

    def _now(self) -> int:
        return self._parts.now_ms()

    def _told(self, event: str, caller: Caller, subscription: Subscription) -> None:
        sink = without_query(subscription.sink.text)
        LOG.info(event, manager=self.rules.full_name, id=subscription.id, user=caller.user, sink=sink)


_LIMITS: Final = {
    "subscriptions": "this manager has {} subscriptions, and may not have more (limits.subscriptions)",
    "user": "you have {} subscriptions, and may not have more (limits.user)",
}


def _expect(known: KnownSubscription, expected: Container[int] | None) -> None:
    if expected is not None and known.stored.revision not in expected:
        raise _changed()


def _exists() -> ApiError:
    return ApiError(ErrorCode.CONFLICT, "there is a subscription with this id")


def _changed() -> ApiError:
    return ApiError(ErrorCode.CHANGED, "the subscription has changed; retrieve it and try again")


def _unavailable() -> ApiError:
    return ApiError(ErrorCode.UNAVAILABLE, "subscriptions cannot be changed now; try again", retry_after=_RETRY)

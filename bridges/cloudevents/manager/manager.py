"""The operations on subscriptions, the same for every binding (CE 3.2.4 to 3.2.8)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Final

from bridges.cloudevents.delivery.metrics import ConsentResult
from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.manager.access import SubscriptionAccess, check_revision, may_create
from bridges.cloudevents.manager.admission import SubscriptionAdmission
from bridges.cloudevents.manager.consents import NO_CONSENT
from bridges.cloudevents.manager.dependencies import ManagerDependencies, QueryFilter
from bridges.cloudevents.manager.documents import (
    SubscriptionPage,
    SubscriptionView,
    discovery_document,
    status_document,
)
from bridges.cloudevents.manager.envelope import Envelope, decode_envelope, encode_envelope
from bridges.cloudevents.manager.errors import (
    RETRY_AFTER,
    ApiError,
    ErrorCode,
    already_exists,
    invalid,
    limit_reached,
    positions_unknown,
    revision_changed,
    store_unavailable,
)
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.probe import DeliveryProbe, ProbeResult
from bridges.cloudevents.manager.proposals import ProposalValidator
from bridges.cloudevents.manager.reencryption import reencrypt_secrets
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.manager.renewal import store_renewed
from bridges.cloudevents.model.values import InvalidSubscription, Json, RefreshToken
from bridges.cloudevents.reading.transfer import NOT_DECRYPTED, ImportedSubscription, export_document, read_import
from bridges.cloudevents.subscription.parse import StoredSecrets
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import (
    AlreadyExists,
    Changed,
    LimitReached,
    StoredSubscription,
    SubscriptionLimits,
    SubscriptionsUnavailable,
)
from gateway.tasks import TimeSlice
from policies.subscriptions import ManagerRules

LOG: Final = get_logger(__name__)
IMPORT_FACTOR: Final = 4
"""How much larger than an object an import may be, which has positions."""


class SubscriptionManager(SubscriptionAccess):
    """A collection of subscriptions of one scope; every operation raises ApiError and then has changed nothing."""

    def __init__(self, rules: ManagerRules, dependencies: ManagerDependencies) -> None:
        store, codec, delivery = dependencies.store, dependencies.codec, dependencies.delivery
        super().__init__(rules, SubscriptionRegistry(rules.full_name, store, codec, delivery))
        self._dependencies = dependencies
        self._reencrypted = False
        self._use(dependencies)
        self._probe: Final = DeliveryProbe(rules.path, dependencies.delivery)

    def _use(self, dependencies: ManagerDependencies) -> None:
        codec, check_sink, metrics = dependencies.codec, dependencies.check_sink, dependencies.metrics
        self._proposals = ProposalValidator(self.rules, codec, check_sink, self.registry, metrics)
        self._admission = SubscriptionAdmission(self.rules, dependencies, self._proposals)

    async def configure(self, rules: ManagerRules, dependencies: ManagerDependencies, *, same_rules: bool) -> None:
        """Continue under another policy (reload); `dependencies` have the same store and delivery.

        `same_rules`: nothing has changed for this manager, except perhaps rights.
        """
        self.rules, self._dependencies, self._reencrypted = rules, dependencies, False
        self._use(dependencies)
        await self.registry.configure(dependencies.codec, same_rules=same_rules)

    async def run(self) -> None:
        """Follow the store and delete subscriptions that ended long ago, until cancelled."""
        await self.registry.run(self.sweep)

    # -- operations

    async def create(self, caller: Caller, body: bytes, *, dry_run: bool = False) -> SubscriptionView:
        """CE 3.2.4.1; `dry_run`: store nothing and connect to nothing."""
        self._require_operation("create")
        await self._ensure_loaded()
        return await self._create(caller, body, None, dry_run)

    async def restore(self, caller: Caller, body: bytes, *, dry_run: bool = False) -> SubscriptionView:
        """Create a subscription of an export, at its positions; ours."""
        self._require_operation("create")
        await self._ensure_loaded()
        try:
            found = read_import(body)
        except InvalidSubscription as error:
            raise invalid(error.mistakes) from None
        secrets = None
        if found.secrets is not None:
            secrets = self._dependencies.codec.import_secrets(found.secrets, found.id, caller.user)
            if secrets is None:
                raise invalid([NOT_DECRYPTED])
        return await self._create(caller, found.body, None, dry_run, found, secrets)

    async def export(self, caller: Caller, id: str, *, secrets: bool) -> dict[str, Json]:
        """What `restore` of another gateway takes; encrypted secrets for the owner only; ours."""
        await self._ensure_known(caller, id)
        entry = self._require_owner(caller, id, None) if secrets else self._require_visible(caller, id)
        status = await self._dependencies.delivery.status(id)
        if status is None or not status.positions:
            raise positions_unknown(RETRY_AFTER)
        found = export_document(self._view(caller, entry).document, status)
        if secrets and (encrypted := self._dependencies.codec.export_secrets(entry.subscription)) is not None:
            found["secrets"] = encrypted
        return found

    async def retrieve(self, caller: Caller, id: str) -> SubscriptionView:
        """CE 3.2.4.2."""
        self._require_operation("retrieve")
        await self._ensure_known(caller, id)
        return self._view(caller, self._require_visible(caller, id))

    async def query(self, caller: Caller, wanted: QueryFilter = QueryFilter()) -> SubscriptionPage:  # noqa: B008
        """CE 3.2.4.3: the caller's subscriptions, or all of them for managers, in the order of ids."""
        self._require_operation("query")
        await self._ensure_loaded()
        items: list[Mapping[str, Json]] = []
        last = ""
        turn = TimeSlice()
        for entry in self.registry.after(wanted.after):
            await turn.pause()
            if self._may_see(caller, entry) and self._matches(entry, wanted):
                if wanted.limit is not None and len(items) >= wanted.limit:
                    return SubscriptionPage(items, last)
                items.append(self._view(caller, entry).document)
                last = entry.stored.id
        return SubscriptionPage(items, None)

    async def update(
        self, caller: Caller, id: str, body: bytes, *, expected: Container[int] | None = None, dry_run: bool = False
    ) -> SubscriptionView:
        """CE 3.2.4.4: replaces the object; `expected`: the revisions that may be replaced."""
        self._require_operation("update")
        await self._ensure_known(caller, id, expected)
        if self.rules.upsert and may_create(expected) and self._find(caller, id) is None:
            created = await self._upsert(caller, body, id, dry_run)
            if created is not None:
                return created

        async def attempt() -> SubscriptionView:
            entry = self._require_owner(caller, id, expected)
            subscription = self._proposals.realize(body, entry.stored.owner, self._now(), id=id, entry=entry)
            if dry_run:
                return SubscriptionView(id, entry.stored.revision, subscription.document)
            document, awaited = await self._admission.admit(subscription, entry)
            stored = await self._dependencies.store.replace(self.rules.full_name, id, document, entry.stored.revision)
            await self._apply(stored, "changed", caller)
            applied = await self._dependencies.delivery.wait_applied(id, stored.revision)
            return SubscriptionView(
                id, stored.revision, subscription.document, consent_pending=awaited, applied=applied
            )

        return await self._retry_on_conflict(id, attempt, expected)

    async def delete(self, caller: Caller, id: str, *, expected: Container[int] | None = None) -> SubscriptionView:
        """CE 3.2.8: returns the last version of the object."""
        self._require_operation("delete")
        await self._ensure_known(caller, id, expected)

        async def attempt() -> SubscriptionView:
            entry = self._require_visible(caller, id)
            check_revision(entry, expected)
            revision = await self._dependencies.store.delete(self.rules.full_name, id, entry.stored.revision)
            await self.registry.remove(id)
            self._log("subscription deleted", caller, entry.subscription)
            applied = await self._dependencies.delivery.wait_applied(id, revision)
            return self._view(caller, entry)._replace(applied=applied)

        return await self._retry_on_conflict(id, attempt, expected)

    def discover(self) -> dict[str, Json]:
        """CE 3.2.4: the capabilities of this manager."""
        return discovery_document(self.rules)

    async def status(self, caller: Caller, id: str) -> dict[str, Json]:
        """The delivery status of a subscription (an extension)."""
        await self._ensure_known(caller, id)
        entry = self._require_visible(caller, id)
        status = await self._dependencies.delivery.status(id)
        return status_document(entry.subscription, entry.stored.revision, status)

    async def resume(self, caller: Caller, id: str) -> dict[str, Json]:
        """End a suspension and return the status (an extension)."""
        await self._ensure_known(caller, id)
        entry = self._require_owner(caller, id, None)
        if await self._dependencies.delivery.resume(id) or await self._resume_remotely(entry):
            self._log("subscription resumed", caller, entry.subscription)
        return await self.status(caller, id)

    async def _resume_remotely(self, entry: RegistryEntry) -> bool:
        """End a suspension at another gateway: a new edition of the same object, which it takes over."""
        delivery = self._dependencies.delivery
        status = await delivery.status(entry.stored.id)
        held = status is None or status.delivered_here or entry.hold_reason is not None
        if held or status is None or status.state is not DeliveryState.SUSPENDED:
            return False
        envelope = decode_envelope(entry.stored.document)._replace(edition=entry.edition + 1)
        stored = await self._replace(entry, envelope)
        await delivery.wait_applied(stored.id, stored.revision)
        return True

    async def _replace(self, entry: RegistryEntry, envelope: Envelope) -> StoredSubscription:
        """Store another envelope of a subscription, and deliver that."""
        try:
            stored = await self._dependencies.store.replace(
                self.rules.full_name, entry.stored.id, encode_envelope(envelope), entry.stored.revision
            )
        except Changed:
            raise revision_changed() from None
        except SubscriptionsUnavailable:
            raise store_unavailable(RETRY_AFTER) from None
        await self.registry.apply(stored)
        return stored

    async def test(self, caller: Caller, id: str) -> ProbeResult:
        """Send one event of type `io.scopegate.test`, ahead of the log (an extension)."""
        await self._ensure_known(caller, id)
        entry = self._require_owner(caller, id, None)
        if entry.hold_reason is not None:
            raise ApiError(ErrorCode.CONFLICT, f"nothing may be sent to its sink now: {entry.hold_reason}")
        if self._dependencies.delivery.state(id) is DeliveryState.ENDED:
            raise ApiError(ErrorCode.CONFLICT, "the subscription has ended")
        return await self._probe.send(id)

    async def confirm(self, id: str, key: str, rate: float | None) -> None:
        """Record a sink's consent and its deliveries per second; raises ApiError for a wrong key."""
        await self._ensure_loaded()
        if not self._awaits(id, key):
            await self._read_again(id)
        entry = self.registry.get(id)
        if not self._awaits(id, key) or entry is None:
            raise ApiError(ErrorCode.FORBIDDEN, "this is not, or no longer, the address of a consent")
        envelope = decode_envelope(entry.stored.document)._replace(granted=rate, pending_consent=None)
        await self._replace(entry, envelope)
        self._dependencies.metrics.consent_requested(ConsentResult.CONFIRMED)
        self._log("subscription consented", Caller(entry.stored.owner), entry.subscription)

    def _awaits(self, id: str, key: str) -> bool:
        entry = self.registry.get(id)
        pending = entry.pending_consent if entry is not None and entry.pending_consent is not None else NO_CONSENT
        return pending.matches(key, self._now())

    async def store_renewed_token(self, id: str, before: RefreshToken, renewed: RefreshToken) -> None:
        """Store a renewed token in place of `before`; raises OSError if that is not possible now.

        A version that was stored meanwhile, here or at another gateway, gets it, too, if it has kept the old one, which
        the login server may accept only once.
        """
        dependencies = self._dependencies
        try:
            stored = await store_renewed(
                self.rules.full_name, id, self.registry, dependencies.store, dependencies.codec, before, renewed
            )
        except (Changed, SubscriptionsUnavailable) as error:
            raise OSError("the subscription cannot be changed now") from error
        await self.registry.record(stored)

    async def sweep(self) -> None:
        """Delete subscriptions that ended too long ago, and re-encrypt secrets of old keys."""
        if self.registry.loaded and not self._reencrypted:
            self._reencrypted = await reencrypt_secrets(
                self.rules.full_name, self.registry, self._dependencies.store, self._dependencies.codec
            )
        turn = TimeSlice()
        for entry in self.registry:
            await turn.pause()
            with suppress(Changed, SubscriptionsUnavailable):  # the next round looks again
                ended = await self._ended_at(entry)
                if ended is not None and ended + self.rules.keep_ended < self._now():
                    await self._dependencies.store.delete(self.rules.full_name, entry.stored.id, entry.stored.revision)
                    await self.registry.remove(entry.stored.id)

    # -- steps

    async def _upsert(self, caller: Caller, body: bytes, id: str, dry_run: bool) -> SubscriptionView | None:
        """Create a subscription by an update; None: it has been created meanwhile, and can be updated."""
        self._require_operation("create")
        try:
            view = await self._create(caller, body, id, dry_run)
        except ApiError as error:
            if error.code is not ErrorCode.CONFLICT:
                raise
            await self._read_again(id)
            if self._find(caller, id) is None:
                raise
            return None
        return view._replace(created=not dry_run)

    async def _create(
        self,
        caller: Caller,
        body: bytes,
        id: str | None,
        dry_run: bool,
        imported: ImportedSubscription | None = None,
        secrets: StoredSecrets | None = None,
    ) -> SubscriptionView:
        subscription = self._proposals.realize(body, caller.user, self._now(), id=id, secrets=secrets)
        if self.registry.get(subscription.id) is not None:
            await self._read_again(subscription.id)
            if self.registry.get(subscription.id) is not None:
                raise already_exists()
        if dry_run:
            return SubscriptionView(subscription.id, 0, subscription.document)
        document, awaited = await self._admission.admit(subscription, None, imported)
        limits = SubscriptionLimits(self.rules.limits.subscriptions, self.rules.limits.user)
        try:
            stored = await self._dependencies.store.create(
                self.rules.full_name, subscription.id, caller.user, document, limits
            )
        except AlreadyExists:
            raise already_exists() from None
        except LimitReached as error:
            raise limit_reached(error.which, error.most) from None
        except SubscriptionsUnavailable:
            raise store_unavailable(RETRY_AFTER) from None
        await self._apply(stored, "created", caller)
        object = subscription.document
        return SubscriptionView(stored.id, stored.revision, object, created=True, consent_pending=awaited)


    async def _apply(self, stored: StoredSubscription, what: str, caller: Caller) -> None:
        await self.registry.apply(stored)
        if (entry := self.registry.get(stored.id)) is not None:
            self._log(f"subscription {what}", caller, entry.subscription)

    def _matches(self, entry: RegistryEntry, wanted: QueryFilter) -> bool:
        if self._is_swept(entry) or wanted.protocol not in (None, entry.subscription.protocol):
            return False
        return wanted.state in (None, self._dependencies.delivery.state(entry.stored.id))

    # -- ends

    async def _ended_at(self, entry: RegistryEntry) -> int | None:
        """When it ended, in milliseconds since 1970."""
        config = entry.subscription.config
        if config.expires is not None and config.expires < self._now():
            return int(config.expires)
        if config.max_events is None:
            return None
        status = await self._dependencies.delivery.status(entry.stored.id)
        return status.since if status is not None and status.state is DeliveryState.ENDED else None

    def _now(self) -> int:
        return self._dependencies.now_ms()

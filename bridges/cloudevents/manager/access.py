"""Which subscriptions of a manager a caller sees, and may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Final, TypeVar

from bridges.cloudevents.manager.documents import SubscriptionView, redacted_for_manager, without_query
from bridges.cloudevents.manager.errors import (
    RETRY_AFTER,
    ApiError,
    ErrorCode,
    not_found,
    revision_changed,
    store_unavailable,
)
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.model.values import Json
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.observability.logs import get_logger
from gateway.state.subscriptions.store import Changed, SubscriptionsUnavailable
from policies.model.scopes.subscriptions import Operation
from policies.subscriptions import ManagerRules

LOG: Final = get_logger(__name__)
_MAX_ATTEMPTS: Final = 5
"""Maximum number of attempts of a change without an expected revision, when other changes are faster."""
T = TypeVar("T")


class SubscriptionAccess(ABC):
    """The base of a manager: its subscriptions as callers see them."""

    def __init__(self, rules: ManagerRules, registry: SubscriptionRegistry) -> None:
        self.rules = rules
        self.registry: Final = registry

    @abstractmethod
    def _now(self) -> int:
        """Milliseconds since 1970."""

    def _require_operation(self, operation: Operation) -> None:
        if operation not in self.rules.operations:
            raise ApiError(ErrorCode.UNSUPPORTED, f"this manager does not offer {operation}")

    def _may_see(self, caller: Caller, entry: RegistryEntry) -> bool:
        return caller.user == entry.stored.owner or caller.user in self.rules.manage

    def _find(self, caller: Caller, id: str) -> RegistryEntry | None:
        entry = self.registry.get(id)
        return entry if entry is not None and self._may_see(caller, entry) and not self._is_swept(entry) else None

    def _require_visible(self, caller: Caller, id: str) -> RegistryEntry:
        entry = self._find(caller, id)
        if entry is None:
            raise not_found()
        return entry

    def _require_owner(self, caller: Caller, id: str, expected: Container[int] | None) -> RegistryEntry:
        entry = self._require_visible(caller, id)
        if entry.stored.owner != caller.user:
            raise ApiError(ErrorCode.FORBIDDEN, "only its owner may do this; who manages sees and deletes")
        check_revision(entry, expected)
        return entry

    async def _ensure_loaded(self) -> None:
        try:
            await self.registry.load()
        except SubscriptionsUnavailable:
            raise store_unavailable(RETRY_AFTER) from None

    async def _ensure_known(self, caller: Caller, id: str, expected: Container[int] | None = None) -> None:
        """Read a subscription again that would be refused: another gateway may have answered a change just now."""
        await self._ensure_loaded()
        entry = self._find(caller, id)
        if entry is None or (expected is not None and entry.stored.revision not in expected):
            await self._read_again(id)

    async def _read_again(self, id: str) -> None:
        """Apply what the store has of a subscription; raises ApiError if it does not answer: nobody knows then."""
        try:
            await self.registry.refresh_one(id)
        except SubscriptionsUnavailable:
            raise store_unavailable(RETRY_AFTER) from None

    async def _retry_on_conflict(
        self, id: str, attempt: Callable[[], Awaitable[T]], expected: Container[int] | None
    ) -> T:
        """Apply a change; repeat it if another one was faster and no revision is expected."""
        try:
            for _ in range(_MAX_ATTEMPTS):
                try:
                    return await attempt()
                except Changed:
                    await self.registry.refresh_one(id)
                    if expected is not None:
                        break
        except SubscriptionsUnavailable:
            raise store_unavailable(RETRY_AFTER) from None
        raise revision_changed()

    def _view(self, caller: Caller, entry: RegistryEntry) -> SubscriptionView:
        document: Mapping[str, Json] = entry.subscription.document
        if entry.stored.owner != caller.user:
            document = redacted_for_manager(document)
        return SubscriptionView(entry.stored.id, entry.stored.revision, document)

    def _is_swept(self, entry: RegistryEntry) -> bool:
        expires = entry.subscription.config.expires
        return expires is not None and expires + self.rules.keep_ended < self._now()

    def _log(self, event: str, caller: Caller, subscription: Subscription) -> None:
        sink = without_query(subscription.sink.text)
        LOG.info(event, manager=self.rules.full_name, id=subscription.id, user=caller.user, sink=sink)


class AllBut(Container[int]):
    """All revisions but these, and a subscription that does not exist (`If-None-Match`)."""

    def __init__(self, revisions: Container[int], among: Container[int] | None) -> None:
        """`among`: those that `If-Match` allows; None for any, or none at all."""
        self._revisions: Final = revisions
        self._among: Final = among

    def __contains__(self, revision: object) -> bool:
        return revision not in self._revisions and (self._among is None or revision in self._among)

    @property
    def allow_missing(self) -> bool:
        """Whether there may be no subscription."""
        return self._among is None


def may_create(expected: Container[int] | None) -> bool:
    """Whether an update may create the subscription, as far as the caller's preconditions go."""
    return expected is None or (isinstance(expected, AllBut) and expected.allow_missing)


def check_revision(entry: RegistryEntry, expected: Container[int] | None) -> None:
    """Raise ApiError if the caller means another revision."""
    if expected is not None and entry.stored.revision not in expected:
        raise revision_changed()

"""Which subscriptions of a manager a caller sees, and may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container
from typing import Final

from bridges.cloudevents.manager.documents import SubscriptionView, redacted_for_manager, without_query
from bridges.cloudevents.manager.errors import ApiError, ErrorCode, not_found, revision_changed
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.registry import RegistryEntry, SubscriptionRegistry
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.observability.logs import get_logger
from policies.model.scopes.subscriptions import Operation
from policies.subscriptions import ManagerRules

LOG: Final = get_logger(__name__)


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

    def _view(self, caller: Caller, entry: RegistryEntry) -> SubscriptionView:
        document = entry.subscription.document
        if entry.stored.owner != caller.user:
            document = redacted_for_manager(document)
        return SubscriptionView(entry.stored.id, entry.stored.revision, document)

    def _is_swept(self, entry: RegistryEntry) -> bool:
        expires = entry.subscription.config.expires
        return expires is not None and expires + self.rules.keep_ended < self._now()

    def _log(self, event: str, caller: Caller, subscription: Subscription) -> None:
        sink = without_query(subscription.sink.text)
        LOG.info(event, manager=self.rules.full_name, id=subscription.id, user=caller.user, sink=sink)


def check_revision(entry: RegistryEntry, expected: Container[int] | None) -> None:
    """Raise ApiError if the caller means another revision."""
    if expected is not None and entry.stored.revision not in expected:
        raise revision_changed()

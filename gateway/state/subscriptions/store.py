"""Stored subscriptions: a document and a revision for each, and notifications of changes.

A store does not interpret `document`: it is the JSON text that the manager wrote, with secrets encrypted. The revision
grows with every change of any subscription of a manager, so that a process knows which changes it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol


class SubscriptionsUnavailable(Exception):
    """The store is not available; nothing was changed."""


class AlreadyExists(Exception):
    """There is a subscription with this id already."""


class Changed(Exception):
    """The subscription does not have the expected revision, or does not exist any more."""


class LimitReached(Exception):
    """The manager or the owner has the maximum number of subscriptions."""

    def __init__(self, which: str, most: int) -> None:
        """`which`: "subscriptions" (of the manager) or "user"."""
        super().__init__(which, most)
        self.which = which
        self.most = most


class StoredSubscription(NamedTuple):
    """A subscription as it is stored."""

    id: str
    owner: str
    revision: int
    document: bytes


class Change(NamedTuple):
    """A subscription was created, replaced or deleted, which is this revision of the manager."""

    revision: int
    id: str


Follower = Callable[[Sequence[Change] | None], None]
"""Is called with changes in their order, or with None if anything may have changed."""


class SubscriptionLimits(NamedTuple):
    """The maximum number of subscriptions of a manager and of one owner."""

    subscriptions: int
    user: int


class SubscriptionStore(Protocol):
    """The subscriptions of all managers of a gateway; `manager` is a scope and a name (`ManagerRules.full_name`)."""

    @property
    def lasting(self) -> bool:
        """Whether subscriptions outlive the process."""

    async def create(
        self, manager: str, id: str, owner: str, document: bytes, limits: SubscriptionLimits
    ) -> StoredSubscription:
        """Store a new subscription; raises AlreadyExists, LimitReached, SubscriptionsUnavailable."""

    async def replace(self, manager: str, id: str, document: bytes, revision: int) -> StoredSubscription:
        """Replace the document if the revision is still `revision`; raises Changed, SubscriptionsUnavailable."""

    async def delete(self, manager: str, id: str, revision: int) -> int:
        """Delete a subscription if its revision is still `revision`; raises Changed, SubscriptionsUnavailable.

        Returns the revision of this change.
        """

    async def load(self, manager: str) -> tuple[int, Mapping[str, StoredSubscription]]:
        """The revision of a manager, and its subscriptions at that revision, or newer ones where they change meanwhile.

        Raises SubscriptionsUnavailable.
        """

    async def load_some(self, manager: str, ids: Collection[str]) -> Mapping[str, StoredSubscription]:
        """Those of these subscriptions that exist; raises SubscriptionsUnavailable."""

    async def revision(self, manager: str) -> int:
        """The revision of a manager; raises SubscriptionsUnavailable."""

    def follow(self, manager: str, changed: Follower) -> Callable[[], None]:
        """Call `changed` soon after each change by any process; returns a function that ends this."""

    async def run(self) -> None:
        """Receive the changes of other processes, until cancelled."""

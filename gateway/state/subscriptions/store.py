"""Stored subscriptions: the object of each as text, with a revision, and a stream of changes.

A store knows no JSON: `document` is what the manager wrote, secrets sealed. Revisions grow with every change of any
subscription of a manager, so that a process can say how far it has followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class SubscriptionsUnavailable(Exception):
    """The store cannot be asked now: nothing was changed."""


class AlreadyExists(Exception):
    """There is a subscription with this id."""


class Changed(Exception):
    """The subscription has another revision than the caller expected, or is gone."""


class LimitReached(Exception):
    """The manager, or the owner, has as many subscriptions as are allowed."""

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


class SubscriptionLimits(NamedTuple):
    """How many subscriptions a manager, and one owner, may have."""

    subscriptions: int
    user: int


class SubscriptionStore(Protocol):
    """The subscriptions of all managers of a gateway; `manager` names one: scope and name."""

    @property
    def lasting(self) -> bool:
        """Whether subscriptions outlive the process."""

    async def create(
        self, manager: str, id: str, owner: str, document: bytes, limits: SubscriptionLimits
    ) -> StoredSubscription:
        """Store a new one; raises AlreadyExists, LimitReached, SubscriptionsUnavailable."""

    async def replace(self, manager: str, id: str, document: bytes, revision: int) -> StoredSubscription:
        """Store another document if the revision is still `revision`; raises Changed, SubscriptionsUnavailable."""

    async def delete(self, manager: str, id: str, revision: int) -> None:
        """Remove it if the revision is still `revision`; raises Changed, SubscriptionsUnavailable."""

    async def load(self, manager: str) -> tuple[int, Mapping[str, StoredSubscription]]:
        """All of a manager's, and the revision up to which they are complete; raises SubscriptionsUnavailable."""

    def follow(self, manager: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after each change by any process; returns what ends that."""

    async def run(self) -> None:
        """Follow the changes of other processes for as long as the gateway serves."""

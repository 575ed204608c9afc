"""Requests and leases of links in a group, their listeners, and the errors (KM-10)."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import Final, NamedTuple, Protocol

from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, RESOURCE_LOCKED, AmqpError, Fault
from gateway.state.leases.claim import GroupLink, Ownership, whole
from gateway.state.leases.group import ClaimDenied, Group


def steady() -> float:
    """A monotonic clock in seconds that also counts while the machine sleeps, where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class RevocationReason(Enum):
    """Reasons for which an owner has to end."""

    DISPLACED = "a link with a greater epoch has taken the partition"
    LOST = "the gateway could not renew its lease of the partition; attach again"
    REBALANCED = "the partitions of the group are being rebalanced; attach again"


class LeaseListener(Protocol):
    """The user of a lease; called on the loop."""

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """DISPLACED, LOST: send nothing more and end now. REBALANCED: end in order, soon."""


class ShareListener(LeaseListener, Protocol):
    """A link that shares a group's partitions with others; called on the loop.

    `stop` is about one of its partitions. DISPLACED: another link gets it, so end it in order and release it.
    """

    def gained(self, lease: Lease) -> None:
        """The link has got a partition."""

    def over(self) -> None:
        """The share is lost with the session: end the link."""


class LeaseRequest(NamedTuple):
    """The request of an attach; see `claim.Claim`. Times are in milliseconds."""

    partition: int | None
    epoch: int | None
    among: tuple[int, ...]
    pend: int = 0
    pend_ms: int = 0
    retain_ms: int = 0


class LeaseTime(Protocol):
    """Whether this process has renewed its leases in time (`manager.Leases`)."""

    @property
    def in_time(self) -> bool: ...


class Lease:
    """The right of one link to one partition of one group.

    `fence` is greater than that of every earlier owner: a position is stored only with a fence that is not smaller
    than the one it was stored with before.
    """

    __slots__ = (
        "_leases", "asked_to_end", "chosen", "ended", "epoch", "fence", "holder", "key", "partition", "round",
        "who",
    )  # fmt: skip

    def __init__(self, leases: LeaseTime, key: str, partition: int, held: Ownership) -> None:
        self._leases: Final = leases
        self.key: Final = key
        self.who: Final = held.who
        self.partition: Final = partition
        self.epoch: Final = held.epoch
        self.fence: Final = held.fence
        self.chosen: Final = held.chosen
        self.round: Final = held.round
        self.asked_to_end = False
        self.ended = False
        self.holder: LeaseListener | None = None

    @property
    def valid(self) -> bool:
        """Whether its link may send now; checked before each batch, because the process may have been suspended."""
        return not self.ended and self._leases.in_time


class Share:
    """The share of one link in the partitions of a group."""

    __slots__ = ("_leases", "ended", "holder", "key", "who")

    def __init__(self, leases: LeaseTime, key: str, who: GroupLink) -> None:
        self._leases: Final = leases
        self.key: Final = key
        self.who: Final = who
        self.ended = False
        self.holder: ShareListener | None = None

    @property
    def valid(self) -> bool:
        """Whether its link may send now; see `Lease.valid`."""
        return not self.ended and self._leases.in_time


class GroupSession:
    """What this process has in one group; `unsure`: the store may hold something of ours that nobody here knows.

    `shares` are links, and `leases` has their parts, too; `leaving` are parts that were released, by name with the
    fence that the record may still show.
    """

    __slots__ = ("again", "leases", "leaving", "lock", "looking", "shares", "unsure", "waiting")

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.leases: Final[dict[str, Lease]] = {}
        self.waiting: Final[dict[str, asyncio.Event]] = {}
        self.shares: Final[dict[str, Share]] = {}
        self.leaving: dict[str, int] = {}
        self.looking = False
        self.again = False
        self.unsure = False

    @property
    def used(self) -> bool:
        """Whether there is a reason to keep it."""
        held = self.leases or self.waiting or self.shares
        return bool(held or self.unsure or self.looking or self.lock.locked())

    def parts(self, share: Share) -> list[Lease]:
        """The leases of a share."""
        mine = f"{share.who.link}/"
        return [lease for name, lease in self.leases.items() if name.startswith(mine)]

    def lose(self, share: Share) -> None:
        """The record does not have it any more."""
        share.ended = True
        self.shares.pop(share.who.link, None)
        if share.holder is not None:
            share.holder.over()

    def gain(self, leases: LeaseTime, share: Share, group: Group) -> list[Lease]:
        """Parts of a share that the record shows and nobody here knows yet."""
        gained = []
        for number, held in group.held.items():
            name = held.who.link
            if whole(held.who) == share.who and name not in self.leases and self.leaving.get(name) != held.fence:
                lease = self.leases[name] = Lease(leases, share.key, number, held)
                lease.holder = share.holder
                gained.append(lease)
        return gained

    def strange(self, group: Group, member: str) -> set[str]:
        """Names of ours in the record that nobody here knows, or knows to be released."""
        fences = {held.who.link: held.fence for held in group.held.values() if held.who.member == member}
        self.leaving = {name: fence for name, fence in self.leaving.items() if fences.get(name) == fence}
        known = {*self.leases, *self.waiting, *self.shares}
        found = group.links(member) - known
        return {name for name in found if name in self.leaving or name.partition("/")[0] not in known}

    def wake(self) -> None:
        """Wake all waiting claims."""
        for changed in self.waiting.values():
            changed.set()


def refusal(denied: ClaimDenied, request: LeaseRequest) -> AmqpError:
    """The errors of docs/conformance.md 0.3."""
    if denied is ClaimDenied.LOCKED:
        text = "the partition has an owner in this group; use a greater event-streams-epoch to take it over"
        return AmqpError(RESOURCE_LOCKED, text)
    if denied is ClaimDenied.FULL:
        text = f"the limit of {request.pend} waiting links for this group is reached"
        return AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
    if denied is ClaimDenied.MIXED:
        text = "other links of this group have another group_mode: configure the same in every rule and gateway"
        return AmqpError(RESOURCE_LOCKED, text)
    return AmqpError(DETACH_FORCED, "all partitions have owners in this group")


def unavailable() -> AmqpError:
    """Group links need the shared state."""
    text = "the shared state of consumer groups is unavailable; attach again later"
    return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)

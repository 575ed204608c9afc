"""Lease requests and leases of links in a group, their listeners, and errors for peers (KM-10)."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import Final, NamedTuple, Protocol

from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, RESOURCE_LOCKED, AmqpError, Fault
from gateway.state.leases.claim import Claim, GroupLink, Ownership, whole
from gateway.state.leases.group import ClaimDenied, Group


def steady() -> float:
    """A monotonic clock in seconds that also advances while the machine is suspended, if the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class RevocationReason(Enum):
    """Why an owner has to end."""

    DISPLACED = "a link with a greater epoch has taken the partition"
    EQUALLED = "a link with the same epoch has taken the partition"
    LOST = "the gateway could not renew its lease of the partition; attach again"
    REBALANCED = "the partitions of the group are being rebalanced; attach again"


class LeaseListener(Protocol):
    """The user of a lease; called on the event loop."""

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """DISPLACED, EQUALLED, LOST: send nothing more and end now. REBALANCED: end cleanly, soon."""


class ShareListener(LeaseListener, Protocol):
    """A link that shares a group's partitions with others; called on the event loop.

    `stop` revokes one of its partitions. DISPLACED: another link gets it, so finish it cleanly and release it.
    """

    def gained(self, lease: Lease) -> None:
        """The link was assigned another partition."""

    def over(self) -> None:
        """The share has ended, for example with the session: end the link."""


class LeaseRequest(NamedTuple):
    """The lease that an attach requests; see `claim.Claim`. Times are in milliseconds."""

    partition: int | None
    epoch: int | None
    among: tuple[int, ...]
    pend: int = 0
    pend_ms: int = 0
    retain_ms: int = 0
    displaces_equal: bool = False

    def claim(self, who: GroupLink) -> Claim:
        """The claim of a link."""
        return Claim(
            who, self.partition, self.epoch, self.among, self.pend, self.retain_ms, self.displaces_equal
        )


class LeaseTime(Protocol):
    """Whether this process has renewed its leases in time (`manager.Leases`)."""

    @property
    def in_time(self) -> bool: ...


class Lease:
    """The right of one link to read one partition for one group.

    `fence` is greater than that of every earlier owner. A position is stored only if its fence is not smaller than the
    stored one, so an earlier owner cannot overwrite it.
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
    """A link's membership in a group whose links share the partitions."""

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
    """The leases, shares and waiting claims of this process in one group.

    `shares` has links, and `leases` has their parts, too. `leaving` has the names of released leases, with the fence
    that the record may still contain. `unsure`: the record may contain a link of ours that this process does not know.
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
        """Whether this session is still needed."""
        held = self.leases or self.waiting or self.shares
        return bool(held or self.unsure or self.looking or self.lock.locked())

    def parts(self, share: Share) -> list[Lease]:
        """The leases of a share."""
        mine = f"{share.who.link}/"
        return [lease for name, lease in self.leases.items() if name.startswith(mine)]

    def lose(self, share: Share) -> None:
        """End a share that is no longer in the record."""
        share.ended = True
        self.shares.pop(share.who.link, None)
        if share.holder is not None:
            share.holder.over()

    def gain(self, leases: LeaseTime, share: Share, group: Group) -> list[Lease]:
        """Create leases for the parts of a share that are new in the record."""
        gained = []
        for number, held in group.held.items():
            name = held.who.link
            if whole(held.who) == share.who and name not in self.leases and self.leaving.get(name) != held.fence:
                lease = self.leases[name] = Lease(leases, share.key, number, held)
                lease.holder = share.holder
                gained.append(lease)
        return gained

    def strange(self, group: Group, member: str) -> set[str]:
        """The names of our links in the record that this process does not know or has released."""
        fences = {held.who.link: held.fence for held in group.held.values() if held.who.member == member}
        self.leaving = {name: fence for name, fence in self.leaving.items() if fences.get(name) == fence}
        known = {*self.leases, *self.waiting, *self.shares}
        found = group.links(member) - known
        return {name for name in found if name in self.leaving or name.partition("/")[0] not in known}

    def wake(self) -> None:
        """Wake all waiting claims, which then read the record."""
        for changed in self.waiting.values():
            changed.set()


def refusal(denied: ClaimDenied, request: LeaseRequest) -> AmqpError:
    """The AMQP error for a denied claim (docs/conformance.md 0.3)."""
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
    """The AMQP error for links of groups while the shared state is unavailable."""
    text = "the shared state of consumer groups is unavailable; attach again later"
    return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)

"""What an attach asks for and what it gets: a wish, a lease, whom it is told to, and the errors (KM-10)."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, RESOURCE_LOCKED, AmqpError, Fault
from gateway.state.leases_rules import Denied, Held

if TYPE_CHECKING:
    from gateway.state.leases import Leases


class Why(Enum):
    """Why an owner has to end."""

    DISPLACED = "a link with a greater epoch has taken the partition"
    LOST = "the gateway could not renew its hold on the partition; attach again"
    DEALT = "the partitions of the group are dealt out anew; attach again"


class Holder(Protocol):
    """Who uses a lease; called on the loop."""

    def stop(self, lease: Lease, why: Why) -> None:
        """DISPLACED, LOST: send nothing more and end now. DEALT: end in good order, soon."""


class Wish(NamedTuple):
    """What an attach asks for; see `leases_rules.Claim`. Times in milliseconds."""

    partition: int | None
    epoch: int | None
    among: tuple[int, ...]
    pend: int = 0
    pend_ms: int = 0
    retain_ms: int = 0


class Lease:
    """The right of one link to one partition of one group.

    `fence` is greater than that of every earlier owner: a position is stored only with a fence that is not smaller
    than the one it was stored with before.
    """

    __slots__ = ("_leases", "chosen", "dealt", "ended", "epoch", "fence", "holder", "key", "partition", "round", "who")

    def __init__(self, leases: Leases, key: str, partition: int, held: Held) -> None:
        self._leases: Final = leases
        self.key: Final = key
        self.who: Final = held.who
        self.partition: Final = partition
        self.epoch: Final = held.epoch
        self.fence: Final = held.fence
        self.chosen: Final = held.chosen
        self.round: Final = held.round
        self.dealt = False
        self.ended = False
        self.holder: Holder | None = None

    @property
    def valid(self) -> bool:
        """Whether its link may send now; asked before each batch, for a process may have slept in between."""
        return not self.ended and self._leases.in_time


class Stake:
    """What this process has in one group; `unsure`: the board may hold something of ours that nobody here knows."""

    __slots__ = ("again", "leases", "lock", "looking", "unsure", "waiting")

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.leases: Final[dict[str, Lease]] = {}
        self.waiting: Final[dict[str, asyncio.Event]] = {}
        self.looking = False
        self.again = False
        self.unsure = False

    @property
    def used(self) -> bool:
        """Whether there is a reason to keep it."""
        return bool(self.leases or self.waiting or self.unsure or self.looking or self.lock.locked())

    def wake(self) -> None:
        """Everybody who waits shall look."""
        for changed in self.waiting.values():
            changed.set()


def refusal(denied: Denied, wish: Wish) -> AmqpError:
    """The errors of docs/conformance.md 0.3."""
    if denied is Denied.LOCKED:
        text = "the partition has an owner in this group; a greater event-streams-epoch takes it over"
        return AmqpError(RESOURCE_LOCKED, text)
    if denied is Denied.FULL:
        return AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{wish.pend} links wait for a partition of this group already")
    return AmqpError(DETACH_FORCED, "every partition has an owner in this group")


def unavailable() -> AmqpError:
    """Group links need the shared state."""
    text = "the state that gateways share for groups cannot be reached; attach again later"
    return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)

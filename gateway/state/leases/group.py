"""Which link may read a partition for a consumer group: one record per group and its transitions (ES 4.5, KM-10).

Pure: a transition gets the members that are alive and the time, and changes the record in place; the caller stores the
whole record atomically (compare and set). This module notifies nobody: every process with links in a group reads the
record after each change and acts on it. So a lost notification only causes a delay.

A *member* is one process during one session; an expired session is never resumed. Members that are not alive own
nothing. A *fence* is a fencing token, a number that only grows: a later owner of a partition has a greater one.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from gateway.state.leases.balance import balance
from gateway.state.leases.claim import Claim, GroupLink, Now, Ownership, whole

FORGET: Final = 100
"""The maximum number of retained epochs per group, if it has fewer partitions; the oldest are dropped first."""


class ClaimDenied(Enum):
    """Reasons for refusing a claim."""

    LOCKED = "locked"
    SURPLUS = "surplus"
    FULL = "full"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The retained epoch of a lost owner: until `until_ms`, claims with a smaller epoch are not granted."""

    epoch: int
    until_ms: int


@dataclass(slots=True)
class Group:
    """The record of one group on one event log."""

    partitions: int = 0
    round: int = 0
    held: dict[int, Ownership] = field(default_factory=dict)
    epochs: dict[int, Remembered] = field(default_factory=dict)
    waiting: list[Claim] = field(default_factory=list)
    sharing: list[Claim] = field(default_factory=list)
    """Links that share the partitions evenly (`balance`)."""

    # -- claims

    def claim(self, claim: Claim, now: Now) -> ClaimDenied | None:
        """Grant or queue a claim; returns the reason if it is denied, else None."""
        self.sweep(now)
        if self.sharing:
            return ClaimDenied.MIXED
        self.partitions = max(self.partitions, *(partition + 1 for partition in claim.among), 0)
        if claim.partition is not None:
            return self._claim_one(claim.partition, claim, now)
        free = self._free_for(claim)
        if free is not None:
            self.grant(free, claim, now)
            return None
        if not claim.pend:
            return ClaimDenied.SURPLUS
        if len(self.waiting) >= claim.pend:
            return ClaimDenied.FULL
        self.waiting.append(claim)
        return None

    def _claim_one(self, partition: int, claim: Claim, now: Now) -> ClaimDenied | None:
        held = self.held.get(partition)
        if held is None:
            if self._too_old(partition, claim):
                return ClaimDenied.LOCKED
            self.grant(partition, claim, now)
            return None
        bar = held.epoch if held.successor is None else held.successor.epoch or 0
        if claim.epoch is None or claim.epoch < bar or (claim.epoch == bar and not claim.displaces_equal):
            return ClaimDenied.LOCKED
        held.successor = claim  # replaces an earlier successor, whose process then refuses its link
        return None

    def share(self, claim: Claim, now: Now) -> ClaimDenied | None:
        """Add a sharing link; if there are more links than partitions, it is denied or waits, as `pend` allows."""
        self.sweep(now)
        if self.waiting or any(whole(held.who) == held.who for held in self.held.values()):
            return ClaimDenied.MIXED
        self.partitions = max(self.partitions, *(partition + 1 for partition in claim.among), 0)
        surplus = len(self.sharing) - len(claim.among)
        if surplus >= 0 and not claim.pend:
            return ClaimDenied.SURPLUS
        if surplus >= claim.pend > 0:
            return ClaimDenied.FULL
        self.sharing.append(claim)
        self._fill(now)
        return None

    def release(self, who: GroupLink, now: Now, *, orderly: bool) -> None:
        """Remove a link or a part that has ended. `orderly`: its receiver closed it, so its epoch is not retained."""
        self.sweep(now)
        self.waiting = [claim for claim in self.waiting if claim.who != who]
        self.sharing = [claim for claim in self.sharing if claim.who != who]
        for partition, held in list(self.held.items()):
            if held.successor is not None and who in (held.successor.who, whole(held.successor.who)):
                held.successor = None
            if who in (held.who, whole(held.who)):
                self._freed(partition, held, now, forget=orderly)
        self._fill(now)

    def grow(self, partitions: int, links: Collection[GroupLink], among: tuple[int, ...], now: Now) -> None:
        """The log has more partitions: let these links have any of `among`, and rebalance (KM-9)."""
        self.sweep(now)
        for claims in (self.waiting, self.sharing):
            claims[:] = [replace(claim, among=among) if claim.who in links else claim for claim in claims]
        if partitions > self.partitions:
            self.partitions = partitions
            self.round += 1
        self._fill(now)

    def rebalance(self, now: Now) -> None:
        """Ask all links with an assigned partition to end, so that they attach again (ES-4.5.1-5)."""
        self.sweep(now)
        self.round += 1

    def sweep(self, now: Now) -> None:
        """Reclaim partitions of expired members, drop stale epochs, grant waiting claims."""
        alive = now.alive
        self.waiting = [claim for claim in self.waiting if claim.who.member in alive]
        self.sharing = [claim for claim in self.sharing if claim.who.member in alive]
        self.epochs = {
            partition: known for partition, known in self.epochs.items() if known.until_ms > now.ms
        }
        for partition, held in list(self.held.items()):
            if held.successor is not None and held.successor.who.member not in alive:
                held.successor = None
            if held.who.member not in alive:
                self._freed(partition, held, now, forget=False)
        self._fill(now)

    # -- queries

    def owned_by(self, who: GroupLink) -> tuple[int, Ownership] | None:
        """The partition that a link owns."""
        return next(((number, held) for number, held in self.held.items() if held.who == who), None)

    def waits(self, who: GroupLink) -> bool:
        """Whether a link still waits for a partition, in the queue or as successor of an owner."""
        successors = (held.successor for held in self.held.values() if held.successor is not None)
        return any(claim.who == who for claim in (*self.waiting, *successors))

    def links(self, member: str) -> set[str]:
        """All links of a member in the record."""
        successors = (held.successor.who for held in self.held.values() if held.successor is not None)
        claims = (claim.who for claim in (*self.waiting, *self.sharing))
        everyone = [*(held.who for held in self.held.values()), *claims, *successors]
        return {who.link for who in everyone if who.member == member}

    def free(self) -> list[int]:
        """The partitions without an owner."""
        return [partition for partition in range(self.partitions) if partition not in self.held]

    @property
    def empty(self) -> bool:
        """Whether the record has no links."""
        return not (self.held or self.waiting or self.sharing)

    def grant(self, partition: int, claim: Claim, now: Now) -> None:
        """Assign a partition without an owner to the link of a claim."""
        known = self.epochs.pop(partition, None)
        epoch = claim.epoch if claim.epoch is not None else known.epoch if known else 0
        chosen = claim.partition is not None
        self.held[partition] = Ownership(claim.who, epoch, now.fence, chosen, self.round, claim.retain_ms)

    # -- inside

    def _freed(self, partition: int, held: Ownership, now: Now, *, forget: bool) -> None:
        del self.held[partition]
        if held.successor is not None:
            self.grant(partition, held.successor, now)
        elif not forget and held.retain_ms and held.epoch:
            self.epochs[partition] = Remembered(held.epoch, now.ms + held.retain_ms)
            while len(self.epochs) > max(FORGET, self.partitions):
                del self.epochs[min(self.epochs, key=lambda number: self.epochs[number].until_ms)]

    def _fill(self, now: Now) -> None:
        left: list[Claim] = []
        for claim in self.waiting:
            free = self._free_for(claim)
            if free is None:
                left.append(claim)
            else:
                self.grant(free, claim, now)
        self.waiting = left
        balance(self, now)

    def _free_for(self, claim: Claim) -> int | None:
        free = (each for each in claim.among if each not in self.held and not self._too_old(each, claim))
        return next(free, None)

    def _too_old(self, partition: int, claim: Claim) -> bool:
        known = self.epochs.get(partition)
        return known is not None and claim.epoch is not None and claim.epoch < known.epoch

    # -- serialization

    def dump(self) -> str:
        """The record as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


StoredObject: TypeAlias = dict[str, Any]
"""A JSON object of a record, with the fields of the class that is created from it."""


def parse(text: str | bytes | None) -> Group:
    """Parse the JSON of `dump`; empty text and None give an empty group."""
    if not text:
        return Group()
    stored = json.loads(text)
    return Group(
        stored["partitions"],
        stored["round"],
        {int(number): _held(held) for number, held in stored["held"].items()},
        {int(number): Remembered(**known) for number, known in stored["epochs"].items()},
        [_claim(claim) for claim in stored["waiting"]],
        [_claim(claim) for claim in stored.get("sharing", ())],
    )


def _held(stored: StoredObject) -> Ownership:
    successor = stored.pop("successor")
    stored["who"] = GroupLink(*stored["who"])
    return Ownership(**stored, successor=_claim(successor) if successor else None)


def _claim(stored: StoredObject) -> Claim:
    stored["who"], stored["among"] = GroupLink(*stored["who"]), tuple(stored["among"])
    return Claim(**stored)


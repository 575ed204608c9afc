"""Distributes partitions over the links of a group that share them, and moves some when links come and go (ES 4.5.1).

A sharing link is in the record's `sharing`. Each of its partitions is owned by a *part* of the link, with a name of
its own. So a partition has one owner, with a fence, and moves as in a takeover: the record names the new owner as
successor, and the current owner ends cleanly. Pure, like the record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from gateway.state.leases.claim import Claim, GroupLink, Now, Ownership, part, whole


class SharedGroup(Protocol):
    """The part of a record (`group.Group`) that `balance` uses."""

    @property
    def sharing(self) -> list[Claim]: ...
    @property
    def held(self) -> dict[int, Ownership]: ...
    def free(self) -> list[int]: ...
    def grant(self, partition: int, claim: Claim, now: Now) -> None: ...


def balance(group: SharedGroup, now: Now) -> None:
    """Assign free partitions to the links with the fewest, and move partitions until all differ by at most one."""
    if not group.sharing:
        return
    parts: dict[GroupLink, list[int]] = {claim.who: [] for claim in group.sharing}
    for number, held in group.held.items():
        owner = whole(held.who if held.successor is None else held.successor.who)
        if owner in parts:
            parts[owner].append(number)
    for number in group.free():
        heirs = [claim for claim in group.sharing if number in claim.among]
        if heirs:
            heir = min(heirs, key=lambda claim: len(parts[claim.who]))
            parts[heir.who].append(number)
            group.grant(number, _for(heir, number), now)
    while (move := _move(group, parts)) is not None:
        number, heir = move
        held = group.held[number]
        parts[whole(held.who)].remove(number)
        parts[heir.who].append(number)
        held.successor = _for(heir, number)


def _move(group: SharedGroup, parts: dict[GroupLink, list[int]]) -> tuple[int, Claim] | None:
    """The next partition to move from the link with the most to the one with the fewest; skips those already moving."""
    richest = sorted(parts, key=lambda who: -len(parts[who]))
    for heir in sorted(group.sharing, key=lambda claim: len(parts[claim.who])):
        for rich in richest:
            if len(parts[rich]) - len(parts[heir.who]) < 2:
                break
            for number in reversed(parts[rich]):
                held = group.held[number]
                if held.successor is None and whole(held.who) == rich and number in heir.among:
                    return number, heir
    return None


def _for(claim: Claim, partition: int) -> Claim:
    return replace(claim, who=part(claim.who, partition), partition=partition)

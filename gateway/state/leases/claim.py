"""The parts of a group's record: claims, owners and times (pure)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple


class GroupLink(NamedTuple):
    """A link, identified by its member (process) and its name in that process."""

    member: str
    link: str


def part(who: GroupLink, partition: int) -> GroupLink:
    """The part of a sharing link that owns one partition."""
    return GroupLink(who.member, f"{who.link}/{partition}")


def whole(who: GroupLink) -> GroupLink:
    """The link to which a part belongs; any other link unchanged."""
    return GroupLink(who.member, who.link.partition("/")[0])


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a link on a partition. `partition` None: any free one of `among`.

    `epoch` None: the link gave none. `pend`: how many links may wait for a partition; 0: surplus links are refused.
    `retain_ms`: how long the epoch is retained after this owner is lost. `displaces_equal`: also an owner with the same
    epoch is displaced.
    """

    who: GroupLink
    partition: int | None
    epoch: int | None
    among: tuple[int, ...]
    pend: int = 0
    retain_ms: int = 0
    displaces_equal: bool = False


@dataclass(slots=True)
class Ownership:
    """The owner of a partition, and the successor that waits until it ends."""

    who: GroupLink
    epoch: int
    fence: int
    chosen: bool
    round: int
    retain_ms: int
    successor: Claim | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The context of a transition: the time, a fence greater than all earlier ones, and the members that are alive."""

    ms: int
    fence: int
    alive: Collection[str]

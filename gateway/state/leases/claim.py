"""The parts of a group's record: claims, owners and times (pure)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple


class GroupLink(NamedTuple):
    """One link: its member (process), and its name there."""

    member: str
    link: str


def part(who: GroupLink, partition: int) -> GroupLink:
    """The owner of one partition of a sharing link."""
    return GroupLink(who.member, f"{who.link}/{partition}")


def whole(who: GroupLink) -> GroupLink:
    """The link of a part; any other link itself."""
    return GroupLink(who.member, who.link.partition("/")[0])


@dataclass(frozen=True, slots=True)
class Claim:
    """The request of a link. `partition` None: any free one of `among`.

    `epoch` None: none given. `pend`: how many links may wait for a partition; 0: surplus links are refused.
    `retain_ms`: how long the epoch is remembered after this owner is lost.
    """

    who: GroupLink
    partition: int | None
    epoch: int | None
    among: tuple[int, ...]
    pend: int = 0
    retain_ms: int = 0


@dataclass(slots=True)
class Ownership:
    """The owner of a partition, and the link with a greater epoch that waits for its end."""

    who: GroupLink
    epoch: int
    fence: int
    chosen: bool
    round: int
    retain_ms: int
    successor: Claim | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The arguments of a transition: the time, a fence greater than any before, and the members that are alive."""

    ms: int
    fence: int
    alive: Collection[str]

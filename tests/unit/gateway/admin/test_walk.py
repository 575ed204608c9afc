"""Walks over links in steps, with pauses between them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.admin.walk import links_after
from gateway.observability.roster import Roster


class Connection:
    """A connection with these links; None: it has no engine."""

    def __init__(self, links: list[SimpleNamespace] | None) -> None:
        self.engine = None if links is None else SimpleNamespace(links=links)


def roster(*counts: int) -> Roster[Any]:
    """Connections with so many links each."""
    found: Roster[Any] = Roster()
    for count in counts:
        links = [SimpleNamespace(serial=2 * number) for number in range(1, count + 1)]
        found.add(Connection(links), 0.0)
    found.add(Connection(None), 0.0)
    return found


@pytest.mark.parametrize("step", [1, 3, 50])
def test_each_link_comes_once_in_order(step: int) -> None:
    async def walked(after: tuple[int, int]) -> list[tuple[int, int]]:
        return [key async for key, _ in links_after(roster(3, 0, 7), after, step=step)]

    whole = [(1, 2), (1, 4), (1, 6), *((3, 2 * number) for number in range(1, 8))]
    assert asyncio.run(walked((0, 0))) == whole
    assert asyncio.run(walked((1, 3))) == whole[1:]
    assert asyncio.run(walked((3, 14))) == []


def test_there_is_a_pause_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def walk() -> None:
        async for _ in links_after(roster(5), (0, 0), step=2, pause=0.25):
            pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(walk())
    assert pauses[:2] == [0.25, 0.25]
    assert sum(pauses) <= 0.75

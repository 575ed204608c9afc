"""Commits for the same link take turns; others do not wait (decision 105)."""

from __future__ import annotations

import asyncio

import pytest

from bridges.kafka.transactions.turns import CommitTurns


class Commits:
    """Commits that end when the test says so."""

    def __init__(self) -> None:
        self.turns, self.log = CommitTurns(), list[str]()
        self.may_end: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, *links: str) -> None:
        self.may_end[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._commit(name, links))

    async def _commit(self, name: str, links: tuple[str, ...]) -> None:
        async with self.turns.turn(links):
            self.log.append(name)
            await self.may_end[name].wait()
            if name == "fails":
                raise ValueError(name)

    async def end(self, name: str) -> None:
        self.may_end[name].set()
        await asyncio.wait([self.tasks[name]])
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_commit_waits_for_all_earlier_ones_of_its_links() -> None:
    commits = Commits()
    for name, links in (("1", "a"), ("2", "b"), ("3", "ab"), ("4", "b"), ("5", ""), ("6", "c")):
        commits.begin(name, *links)
    await settle()
    assert commits.log == ["1", "2", "5", "6"]
    await commits.end("1")
    assert commits.log[4:] == []
    await commits.end("2")
    assert commits.log[4:] == ["3"]
    await commits.end("3")
    assert commits.log[4:] == ["3", "4"]
    for name in "456":
        await commits.end(name)
    commits.begin("7", "a", "b", "c")
    await settle()
    assert commits.log[-1] == "7"
    await commits.end("7")


async def test_who_gives_up_waiting_lets_nobody_pass() -> None:
    commits = Commits()
    for name in "123":
        commits.begin(name, "a")
    await settle()
    commits.tasks["2"].cancel()
    await settle()
    assert (commits.log, commits.tasks["2"].cancelled()) == (["1"], True)
    await commits.end("1")
    assert commits.log == ["1", "3"]
    await commits.end("3")


async def test_a_commit_that_fails_holds_up_nobody() -> None:
    commits = Commits()
    commits.begin("fails", "a")
    commits.begin("next", "a")
    await settle()
    await commits.end("fails")
    assert commits.log == ["fails", "next"]
    await commits.end("next")
    with pytest.raises(ValueError, match="fails"):
        await commits.tasks["fails"]

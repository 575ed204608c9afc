"""Reloads without servers: how long one turn of the loop lasts, and files that do not answer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway import app, service
from gateway.service import Service
from gateway.tasks import Supervisor
from tests.support.process import PATIENCE


class Counted:
    """In the place of `Judge`: says how many links were looked at since the loop came round."""

    looked = 0

    def __init__(self, *_: object) -> None:
        """As `Judge`."""

    def each(self, links: list[int], far: list[int]) -> Iterator[bool]:
        for number in far + links:
            Counted.looked += 1
            yield number % 2 == 0


async def test_a_reload_looks_at_few_links_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 links under 500 rules held everybody for four seconds."""
    monkeypatch.setattr(service, "Judge", Counted)
    world, bridges = SimpleNamespace(scopes={}), SimpleNamespace(judge=lambda judge: None)
    links = {"links": lambda: range(500), "far_links": lambda: range(100)}
    gateway: Any = SimpleNamespace(world=world, report=None, bridges=bridges, _replaced=None, **links)
    judging, most = asyncio.ensure_future(Service._judge(gateway)), 0
    while not judging.done():
        before = Counted.looked
        await asyncio.sleep(0)
        most = max(most, Counted.looked - before)
    assert (judging.result(), Counted.looked) == (300, 600)
    assert 0 < most <= 20


class Told:
    """A service that hears of policies."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.policy_state = SimpleNamespace(refused=self.problems.extend)
        self.supervisor = Supervisor(lambda name, error: self.problems.append(repr(error)))


async def test_a_policy_that_cannot_be_read_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe stands for a file system that does not answer: no reload came after it."""
    monkeypatch.setattr(app, "_PATIENCE", 0.1)
    pipe = tmp_path / "policy.yaml"
    os.mkfifo(pipe)
    told: Any = Told()
    process = app.Process(told, pipe)
    await process._apply()
    assert len(told.problems) == 1
    assert "could not be read within" in told.problems[0]
    with pipe.open("wb"):  # lets the thread go
        pass


async def test_a_file_system_that_does_not_answer_has_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the policy file would leave one more."""
    answer, looks = threading.Event(), list[Path]()

    def stamp(path: Path) -> tuple[int, int, int]:
        looks.append(path)
        if len(looks) > 1:  # the first is that of the start
            answer.wait(PATIENCE)
        return 1, 2, len(looks)

    monkeypatch.setattr(app, "_PATIENCE", 0.05)
    monkeypatch.setattr(app, "_stamp", stamp)
    told: Any = Told()
    process = app.Process(told, tmp_path / "policy.yaml")
    assert [await process._stamped() for _ in range(3)] == 3 * [(1, 2, 1)]
    monkeypatch.setattr(app, "_PATIENCE", PATIENCE)
    answer.set()
    assert await process._stamped() == (1, 2, 2)
    assert len(looks) == 2
    await told.supervisor.close()

"""Reloads without servers: how long one turn of the loop lasts, and files that do not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.config import watch
from gateway.config.watch import Stamp, Stamps
from gateway.server import gateway as service
from gateway.server import process as app
from gateway.server.gateway import Gateway
from gateway.server.listeners import Listeners
from gateway.tasks import Supervisor, until
from tests.support.gateway.process import PATIENCE


class Counted:
    """In the place of `LinkRevalidator`: counts the links it was asked about."""

    looked = 0

    def __init__(self, *_: object) -> None:
        """As `LinkRevalidator`."""

    def each(self, links: list[int], far: list[int]) -> Iterator[bool]:
        for number in far + links:
            Counted.looked += 1
            time.sleep(0.001)
            yield number % 2 == 0

    def decided(self, link: object) -> None:
        """Every link may stay."""


async def test_a_reload_looks_at_few_links_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 links under 500 rules held everybody for four seconds; twenty of them under 5,000 rules for 40 ms."""
    monkeypatch.setattr(service, "LinkRevalidator", Counted)
    bridges = SimpleNamespace(policy_changed=lambda verdict: None)
    links: dict[str, Any] = {
        "links": lambda: range(50),
        "_connectors": SimpleNamespace(links=lambda: range(10)),
    }
    gateway: Any = SimpleNamespace(scopes={}, report=None, bridges=bridges, _replaced=None, **links)
    judging, most = asyncio.ensure_future(Gateway._revalidate_links(gateway)), 0
    while not judging.done():
        before = Counted.looked
        await asyncio.sleep(0)
        most = max(most, Counted.looked - before)
    assert (judging.result(), Counted.looked) == (30, 60)
    assert 0 < most <= 3


class RecordingService:
    """A service that hears of policies."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.policy_state = SimpleNamespace(refused=self.problems.extend)
        self.supervisor = Supervisor(lambda name, error: self.problems.append(repr(error)))


async def test_a_policy_that_cannot_be_read_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe stands for a file system that does not answer: no reload came after it."""
    monkeypatch.setattr(app, "_READ_TIMEOUT", 0.1)
    pipe = tmp_path / "policy.yaml"
    os.mkfifo(pipe)
    reported: Any = RecordingService()
    process = app.GatewayProcess(reported, pipe, {})
    await process._apply()
    assert len(reported.problems) == 1
    assert "could not be read within" in reported.problems[0]
    with pipe.open("wb"):  # lets the thread go
        pass


async def test_a_file_system_that_does_not_answer_has_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the policy file would leave one more."""
    answer, looks = threading.Event(), list[Path]()

    def stamps(paths: list[Path]) -> Stamps:
        looks.extend(paths)
        answer.wait(PATIENCE)
        return {path: (1, 2, len(looks)) for path in paths}

    monkeypatch.setattr(app, "_READ_TIMEOUT", 0.05)
    monkeypatch.setattr(app, "stamps", stamps)
    reported: Any = RecordingService()
    file = tmp_path / "policy.yaml"
    process = app.GatewayProcess(reported, file, {file: (1, 2, 0)})
    assert [await process._stamped() for _ in range(3)] == 3 * [{file: (1, 2, 0)}]
    monkeypatch.setattr(app, "_READ_TIMEOUT", PATIENCE)
    answer.set()
    assert await process._stamped() == {file: (1, 2, 1)}
    assert len(looks) == 1
    await reported.supervisor.close()


class Reloads:
    """A process whose service takes what is in the file, and says why; a reload waits in the middle when told to."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.applied = file, list[tuple[str, str]]()
        self.problems, self.loads, self.go_on = list[str](), 0, asyncio.Event()
        self.go_on.set()
        self.policy = SimpleNamespace(digest="")
        self.policy_state = SimpleNamespace(
            refused=self.problems.extend, broken=None, reason="", ready=lambda: (True, "")
        )
        self.supervisor = Supervisor(lambda name, error: self.problems.append(repr(error)))
        self.listening = SimpleNamespace(retry_unbound=self.retry_unbound)
        monkeypatch.setattr(app, "_WATCH_INTERVAL", 0.01)
        monkeypatch.setattr(app, "load", Path.read_text)
        monkeypatch.setattr(app, "named_stamps", lambda policy: {})
        me: Any = self
        self.write("first")
        self.process = app.GatewayProcess(me, file, watch.stamps([file]))
        self.supervisor.keep(self.process.watch, "policy-watch")

    def write(self, text: str) -> None:
        beside = self.file.with_suffix(".next")
        beside.write_text(text)
        beside.replace(self.file)

    def signal(self) -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    async def retry_unbound(self) -> None:
        """No port is tried again."""

    async def load(self, policy: str) -> str:
        self.loads += 1
        await self.go_on.wait()
        return policy

    async def apply(self, policy: str, credentials: str) -> None:
        self.applied.append((policy, self.policy_state.reason))

    async def are(self, *wanted: tuple[str, str]) -> None:
        await until(lambda: len(self.applied) >= len(wanted), PATIENCE)
        assert self.applied == [*wanted]


@pytest.fixture
async def reloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reloads]:
    made = Reloads(tmp_path / "policy.yaml", monkeypatch)
    yield made
    await made.supervisor.close()
    assert not made.problems


@pytest.mark.row("X-8")
async def test_a_signal_during_a_reload_is_answered_by_another_and_the_last_file_wins(reloads: Reloads) -> None:
    reloads.go_on.clear()
    reloads.signal()
    await until(lambda: reloads.loads == 1, PATIENCE)
    for text in ("second", "third"):
        reloads.write(text)
        reloads.signal()
    reloads.go_on.set()
    await reloads.are(("first", app.SIGNAL), ("third", app.SIGNAL))


@pytest.mark.row("X-8")
async def test_a_file_that_changes_during_a_reload_is_read_again(reloads: Reloads) -> None:
    reloads.go_on.clear()
    reloads.signal()
    await until(lambda: reloads.loads == 1, PATIENCE)
    reloads.write("second")
    reloads.go_on.set()
    await reloads.are(("first", app.SIGNAL), ("second", app.CHANGED))


async def test_a_file_that_changes_while_it_is_looked_at_is_read_once(
    reloads: Reloads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its date was that of before the signal, so the change counted once more after the reload."""
    looks, stamp = list[object](), watch.stamp

    def then_it_changes(path: Path) -> Stamp | None:
        looks.append(found := stamp(path))
        if len(looks) == 1:
            reloads.write("second")
            reloads.signal()
        return found

    monkeypatch.setattr(watch, "stamp", then_it_changes)
    await until(lambda: len(looks) > 4, PATIENCE)
    await reloads.are(("second", app.SIGNAL))


async def test_a_reload_during_the_end_is_refused(reloads: Reloads) -> None:
    """It opened ports and connections that nobody closed in good order."""
    reloads.process._on_stop()
    reloads.signal()
    await until(lambda: reloads.problems, PATIENCE)
    assert reloads.problems.pop() == app._SHUTTING_DOWN
    assert not reloads.applied


async def test_a_policy_that_changes_while_it_is_read_at_the_start_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was looked at after it had been read: what came between was never noticed."""
    file = tmp_path / "policy.yaml"
    file.write_text("first")

    def then_it_changes(path: Path) -> str:
        text = path.read_text()
        path.write_text("longer")
        return text

    monkeypatch.setattr(app, "load", then_it_changes)
    monkeypatch.setattr(app, "named_stamps", lambda policy: {})
    policy, seen = app.read(file)
    reported: Any = RecordingService()
    process = app.GatewayProcess(reported, file, seen)
    assert (policy, await process._due()) == ("first", app.CHANGED)
    assert await process._due() is None


async def test_a_port_that_cannot_be_tried_again_keeps_no_reload_from_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error than one of the system ended the watch, before it looked at the file."""

    async def install(*_: object) -> None:
        raise ValueError("killed by the test")

    monkeypatch.setattr(Listeners, "_install", install)
    nothing: Any = object()
    listening = Listeners(nothing, nothing)
    listening.unbound[nothing], listening._credentials = ValueError(), nothing
    await listening.retry_unbound()
    assert listening.unbound

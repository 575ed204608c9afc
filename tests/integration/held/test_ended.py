"""Connections and links that have ended leave nothing behind, and need no scan of all objects for that."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import tasks
from gateway.held.alive import ALIVE
from tests.support.amqp import frames
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import served
from tests.support.gateway.process import PATIENCE

CONNECTIONS = 150
LINKS = 20


@pytest.fixture
def scans() -> Iterator[list[object]]:
    """The scans of all objects; no other collection frees anything."""
    found = list[object]()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info)

    gc.disable()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.enable()


def ended(port: int, number: int) -> None:
    """A connection with links, half of which receive; it ends in one of the usual ways."""
    with Peer(port) as peer:
        peer.start()
        for handle in range(LINKS):
            to = {"target": frames.target("chat/x")} if handle % 2 else {"source": frames.source("chat/x")}
            peer.attach(f"link-{handle}", SENDER if handle % 2 else RECEIVER, handle, **to)
        for _ in range(LINKS):
            peer.until("attach")
        if number % 3 == 1:
            for handle in range(LINKS):
                peer.detach(handle)
        if number % 3:
            peer.close().until("close")


async def test_what_has_ended_is_freed_without_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scans: list[object]
) -> None:
    monkeypatch.setattr("gateway.held.garbage.INTERVAL", 0.05)
    file = tmp_path / "policy.json"
    file.write_text(Document().text)
    async with served(file, monkeypatch) as start:
        gateway = await start()
        await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
        scans.clear()
        before, most = ALIVE.count, 0
        for number in range(CONNECTIONS):
            await asyncio.to_thread(ended, gateway.port, number)
            most = max(most, ALIVE.count)
        await tasks.until(lambda: ALIVE.count <= before, PATIENCE)
        assert (ALIVE.count - before, scans) == (0, [])
        assert most - before < 10 * LINKS

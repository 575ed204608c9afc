"""What connections and links leave when they end is freed, although the gateway almost never scans all objects."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from gateway import tasks
from gateway.amqp.engine.engine import Engine
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import served
from tests.support.gateway.process import PATIENCE

ENDS = 20


def engines() -> int:
    return sum(isinstance(each, Engine) for each in gc.get_objects())


def ended(port: int) -> None:
    """A connection with a link that is lost."""
    with Peer(port) as peer:
        peer.start()
        peer.attach_receiver("chat/x")


async def test_what_ended_connections_leave_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.held.garbage.INTERVAL", 0.05)
    monkeypatch.setattr("gateway.held.garbage.LEAST", 2 * ENDS)
    file = tmp_path / "policy.json"
    file.write_text(Document().text)
    async with served(file, monkeypatch) as start:
        gateway = await start()
        await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
        gc.disable()
        try:
            before = engines()
            for _ in range(ENDS):
                await asyncio.to_thread(ended, gateway.port)
            await tasks.until(lambda: engines() <= before, PATIENCE)
            assert engines() <= before
        finally:
            gc.enable()

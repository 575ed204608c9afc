"""A bug of ours while a connection is served: its peer gets a close, its messages outcomes, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway import tasks
from gateway.amqp.engine.dispatcher import Dispatcher
from gateway.amqp.engine.engine import Engine
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import InProcessGateway, Start, served
from tests.support.gateway.process import PATIENCE

INTERNAL = "amqp:internal-error"
MARKED = "to-fail"


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    file = tmp_path / "policy.json"
    file.write_text(Document().text)
    async with served(file, monkeypatch) as make:
        yield make


Arm = Callable[[], None]


def failing(name: str, monkeypatch: pytest.MonkeyPatch, when: Callable[[Engine], bool] = lambda engine: True) -> Arm:
    """Prepare a step of an engine to fail once, for the container MARKED; the function returned begins that."""
    owner = Dispatcher if name == "dispatch" else Engine
    original, armed = getattr(owner, name), list[bool]()

    def fails(self: Any, *args: Any) -> Any:
        engine: Engine = self._engine if owner is Dispatcher else self
        if armed and engine.remote_container == MARKED and when(engine):
            armed.clear()
            raise RuntimeError("a bug that the test has made")
        return original(self, *args)

    monkeypatch.setattr(owner, name, fails)
    return lambda: armed.append(True)


async def ready(start: Start) -> InProcessGateway:
    gateway = await start()
    await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)
    return gateway


@pytest.mark.parametrize("step", ["take_pieces", "weigh", "dispatch", "receive"])
async def test_a_connection_that_fails_is_closed_with_a_word(
    step: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = failing(step, monkeypatch)
    gateway = await ready(start)
    await asyncio.to_thread(dialogue, gateway.port, arm)
    assert gateway.count("task_failures", "connection") == 1
    assert gateway.count("bad_input", INTERNAL) == 0


def dialogue(port: int, arm: Arm) -> None:
    """A receiver fails with a message unsettled, while others go on; the sender hears an honest outcome."""
    with connected(port, container_id=MARKED) as marked, receiving(port, "chat/b") as bystander:
        marked.attach_receiver("chat/a")
        marked.flow(0, link_credit=10)
        with sending(port, "chat/a") as sender, sending(port, "chat/b") as other:
            sender.transfer(message(b"in doubt"))
            marked.until("transfer")
            arm()
            marked.flow(0, link_credit=9, delivery_count=1)
            assert marked.until("close").error["condition"] == INTERNAL
            marked.close().expect_eof()
            sender.until("disposition", first=0, state="modified")
            passes(other, bystander)


async def test_outcomes_that_are_known_come_before_the_close(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = failing("take_pieces", monkeypatch, lambda engine: any(link.accepted for link in engine.links))
    gateway = await ready(start)
    await asyncio.to_thread(accepted_and_closed, gateway.port, arm)


def accepted_and_closed(port: int, arm: Arm) -> None:
    with receiving(port, "chat/a") as receiver, connected(port, container_id=MARKED) as marked:
        marked.attach_sender("chat/a")
        marked.until("flow", handle=0)
        arm()
        marked.transfer(message(b"taken"))
        receiver.disposition(receiver.until("transfer").delivery_id, "accepted")
        marked.until("disposition", first=0, state="accepted")
        assert marked.until("close").error["condition"] == INTERNAL
        marked.close().expect_eof()


async def test_a_connection_that_fails_twice_is_dropped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = failing("take_pieces", monkeypatch)
    failing("broken", monkeypatch)()
    gateway = await ready(start)
    await asyncio.to_thread(dropped, gateway.port, arm)
    assert gateway.count("task_failures", "connection") == 2
    assert gateway.count("bad_input", INTERNAL) == 0


def dropped(port: int, arm: Arm) -> None:
    marked = connected(port, container_id=MARKED)
    with marked, receiving(port, "chat/b") as bystander, sending(port, "chat/b") as other:
        arm()
        marked.begin(1)
        assert marked.receive() is None
        passes(other, bystander)

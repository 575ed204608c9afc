"""The gateway in the process of the test, started as by `scopegate run`: for tests that make one of its steps fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway import tasks
from gateway.server import process as app
from gateway.server.gateway import Gateway
from tests.support.gateway.process import PATIENCE


class InProcessGateway:
    """A gateway that runs, or is about to."""

    service: Gateway
    process: Any

    @property
    def port(self) -> int:
        """Where the first listener of the policy accepts."""
        return next(iter(self.service.listeners)).model.bind.port

    def hup(self) -> None:
        """Do what SIGHUP does."""
        self.process._reload.set()

    def part(self, name: str) -> tuple[bool, str]:
        """What `/readyz` says of a part."""
        part = self.service.readiness.report()[1]["parts"][name]
        return part["ready"], part["detail"]

    def count(self, metric: str, *labels: str) -> int:
        """How often something rare has happened."""
        return self.service.report.metrics._rare[metric].get(labels, 0)


Start = Callable[[], Coroutine[Any, Any, InProcessGateway]]


@asynccontextmanager
async def served(file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """A function that serves the policy; it is stopped in good order in the end."""
    gateway = InProcessGateway()

    class Process(app.GatewayProcess):
        def __init__(self, service: Gateway, path: Path, seen: app.Stamps) -> None:
            super().__init__(service, path, seen)
            gateway.service, gateway.process = service, self

    monkeypatch.setattr(app, "GatewayProcess", Process)
    running: list[asyncio.Task[int]] = []

    async def start() -> InProcessGateway:
        running.append(asyncio.get_running_loop().create_task(app._serve(*app.read(file))))
        await tasks.until(lambda: hasattr(gateway, "service") or running[0].done(), PATIENCE)
        return gateway

    yield start
    gateway.process._stop.set()
    assert await running[0] == 0


class Once:
    """Fails the first time it is called."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self.calls = 0

    def called(self) -> None:
        """Count a call; raise at the first."""
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("killed by the test")


def fail_once(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Once:
    """Let a function of a class or module raise RuntimeError at its first call."""
    once = Once(getattr(owner, name))
    if asyncio.iscoroutinefunction(once.original):

        async def asynchronous(*args: Any, **more: Any) -> Any:
            once.called()
            return await once.original(*args, **more)

        monkeypatch.setattr(owner, name, asynchronous)
    else:

        def plain(*args: Any, **more: Any) -> Any:
            once.called()
            return once.original(*args, **more)

        monkeypatch.setattr(owner, name, plain)
    return once

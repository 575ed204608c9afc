"""Every essential task of the process is killed once: it is begun again, counted, and readiness says so (B6)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bridges.kafka.cluster import Cluster
from bridges.kafka.durable import Keeper
from gateway import app, connectors, tasks
from gateway.amqp import tls_server
from gateway.amqp.types import Symbol, Uint
from gateway.bridging_one import Bridge
from gateway.http import server
from gateway.journal.pump import Pump
from gateway.memory import Memory
from gateway.policy_file import load
from gateway.service import Service
from gateway.state.leases import Leases
from gateway.state.memory import MemoryState
from gateway.state.memory_store import MemoryStore
from tests.support import frames
from tests.support.certs import Authority
from tests.support.document import Document
from tests.support.links import connected
from tests.support.process import ports

ROOT = Path(__file__).parents[2]
KILLED: dict[str, tuple[Any, str]] = {
    "state": (MemoryState, "run"),
    "state-store": (MemoryStore, "run"),
    "leases": (Leases, "_looks"),
    "memory": (Memory, "run"),
    "http": (server._QuietServer, "startup"),
    "journal": (Pump, "turn"),
    "policy-watch": (app, "_stamp"),
    "connector": (connectors.Connector, "_session"),
    "bridge": (Bridge, "_claim"),
    "tls-accept": (tls_server.TlsServer, "_accept"),
    "kafka-refresh": (Cluster, "_probe"),
    "termini": (Keeper, "_unpark"),
    "mirror": (Cluster, "commit"),
}
"""By the name of a task: a function that it calls, which fails once."""


def kept_names(path: Path) -> set[str]:
    """How the names of kept tasks begin in a module."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    found = set()
    for call in calls:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func).endswith("upervisor.keep"):
            name = call.args[1]
            word = name.values[0] if isinstance(name, ast.JoinedStr) else name
            assert isinstance(word, ast.Constant), "the name begins with a word of ours"
            found.add(str(word.value).partition(":")[0])
    return found


def test_every_kept_task_is_killed_here() -> None:
    modules = [path for folder in ("gateway", "bridges") for path in (ROOT / folder).rglob("*.py")]
    assert set().union(*map(kept_names, modules)) == set(KILLED)


class Once:
    """Fails the first time."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self.calls = 0

    def called(self) -> None:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("killed by the test")


def fail_once(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Once:
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


class Gateway:
    """The gateway in this process, as `scopegate run` makes it."""

    service: Service
    process: Any
    port = 0


Start = Callable[[], Coroutine[Any, Any, Gateway]]


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Serve a policy that has everything."""
    document, authority = Document(), Authority(tmp_path)
    cert, key = authority.server("localhost")
    document.kafka("embedded", topics={"log": 1, "journal": 1})
    document.add_listener(tls={"cert": str(cert), "key": str(key)})
    (nobody,) = ports(1)
    document.scope()["connect"] = [{"name": "far", "to": f"amqp://127.0.0.1:{nobody}", "backoff": {"min": "10ms"}}]
    document.scope()["bridge"] = [{"name": "b", "from": "events/log", "to": "chat/x"}]
    document.data["gateway"]["journal"] = {"kafka": "main", "topic": "journal", "interval": "1s"}
    file = tmp_path / "policy.json"
    file.write_text(document.text)
    gateway = Gateway()

    class Process(app.Process):
        def __init__(self, service: Service, path: Path) -> None:
            super().__init__(service, path)
            gateway.service, gateway.process = service, self

    monkeypatch.setattr(app, "Process", Process)
    monkeypatch.setattr(tasks, "_PROVEN", 0.5)
    running: list[asyncio.Task[int]] = []

    async def make() -> Gateway:
        policy = load(file)
        running.append(asyncio.get_running_loop().create_task(app._serve(policy)))
        await tasks.until(lambda: hasattr(gateway, "service") or running[0].done(), 10)
        gateway.port = document.edge
        return gateway

    yield make
    gateway.process._stop.set()
    assert await running[0] == 0


def restarts(gateway: Gateway, name: str) -> int:
    return gateway.service.report.metrics._rare["task_restarts"].get((name,), 0)


def show(gateway: Gateway) -> None:
    """Give the task that mirrors positions something to do."""
    cluster: Any = gateway.service.clusters["main"]
    cluster._keeper._mirror["log", "amqp.x"] = {0: 1}


@pytest.mark.parametrize("name", sorted(KILLED))
async def test_a_task_that_was_killed_is_begun_again(name: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute = KILLED[name]
    if name == "policy-watch":  # what fails is called before the task begins, too
        gateway = await start()
        once = fail_once(owner, attribute, monkeypatch)
    else:
        once = fail_once(owner, attribute, monkeypatch)
        gateway = await start()
    if name in ("termini", "mirror"):
        source = frames.source("events/log", durable=Uint(1), expiry_policy=Symbol("never"))

        def attach() -> Any:
            with connected(gateway.port, container_id="c") as peer:
                return peer.attach_receiver(None, source=source, name="l")

        await tasks.until(lambda: gateway.service.listeners, 10)
        await asyncio.to_thread(attach)
    show(gateway)
    supervisor = gateway.service.supervisor
    await tasks.until(lambda: not supervisor.ready()[0], 10)
    part = gateway.service.readiness.report()[1]["parts"]["tasks"]
    show(gateway)
    assert not part["ready"]
    assert name in part["detail"]
    await tasks.until(lambda: once.calls > 1 and supervisor.ready()[0], 10)
    assert once.calls > 1
    assert restarts(gateway, name) == 1
    assert gateway.service.supervisor.ready() == (True, "all run")
    assert gateway.service.report.metrics._rare["task_failures"][name,] == 1

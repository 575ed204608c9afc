"""Every essential task of the process is killed once: it is begun again, counted, and readiness says so (B6)."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.group_offsets import GroupOffsets
from bridges.cloudevents.manager.manager import SubscriptionManager
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.links.checkpointer import TerminusCheckpointer
from gateway import tasks
from gateway.admin.live.credit import CreditWaits
from gateway.amqp.codec.types import Symbol, Uint
from gateway.amqp.transport import tls_server
from gateway.connectors import connector
from gateway.forwarding.worker import BridgeWorker
from gateway.held.garbage import EndedCollector
from gateway.journal.writer import JournalWriter
from gateway.observability.histogram import Histogram
from gateway.observability.http import server
from gateway.server import process
from gateway.server.memory import Memory
from gateway.server.metrics.lag import LagMeter
from gateway.server.metrics.starving import StarvingSenders
from gateway.state.counters.memory_store import MemoryCounterStore
from gateway.state.leases.manager import Leases
from gateway.state.memory import MemoryState
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from gateway.tracing.collector import SpanSender
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import InProcessGateway, Start, fail_once, served
from tests.support.gateway.process import PATIENCE, ports
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Authority

KILLED: dict[str, tuple[Any, str]] = {
    "state": (MemoryState, "run"),
    "state-store": (MemoryCounterStore, "run"),
    "leases": (Leases, "_looks"),
    "memory": (Memory, "run"),
    "garbage": (EndedCollector, "run"),
    "admin-credit": (CreditWaits, "finish"),
    "lag": (LagMeter, "measure"),
    "starving": (StarvingSenders, "look"),
    "loop-lag": (Histogram, "observe"),
    "http": (server._QuietServer, "startup"),
    "journal": (JournalWriter, "turn"),
    "traces": (SpanSender, "_send_ended"),
    "policy-watch": (process, "stamps"),
    "connector": (connector.Connector, "_session"),
    "bridge": (BridgeWorker, "_claim"),
    "tls-accept": (tls_server.TlsServer, "_accept"),
    "kafka-refresh": (Cluster, "_probe"),
    "termini": (TerminusCheckpointer, "_release_retained"),
    "mirror": (Cluster, "commit"),
    "subscriptions": (SubscriptionManager, "sweep"),
    "slices": (Leases, "share"),
    "checkpoints": (SubscriptionDispatcher, "_flush"),
    "subscription-offsets": (GroupOffsets, "_lowest"),
    "subscription-store": (MemorySubscriptionStore, "run"),
}
"""By the name of a task: a function that it calls, which fails once."""


def kept_task_names(path: Path) -> set[str]:
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
    assert set().union(*map(kept_task_names, modules)) == set(KILLED)


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
    document.scope()["subscriptions"] = [{"name": "orders", "events": "events/log"}]
    document.data["gateway"]["journal"] = {"kafka": "main", "topic": "journal", "interval": "1s"}
    document.data["gateway"]["tracing"] = {"endpoint": f"http://127.0.0.1:{nobody}/v1/traces"}
    file = tmp_path / "policy.json"
    file.write_text(document.text)
    monkeypatch.setattr(tasks, "_RECOVERED", 0.5)
    async with served(file, monkeypatch) as make:
        yield make


def show(gateway: InProcessGateway) -> None:
    """Give the task that mirrors positions something to do."""
    cluster: Any = gateway.service.clusters["main"]
    cluster._checkpointer._mirror["log", "amqp.x"] = {0: 1}


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

        await tasks.until(lambda: gateway.service.listeners, PATIENCE)
        await asyncio.to_thread(attach)
    show(gateway)
    supervisor = gateway.service.supervisor
    await tasks.until(lambda: not supervisor.ready()[0], PATIENCE)
    ready, detail = gateway.part("tasks")
    show(gateway)
    assert not ready
    assert name in detail
    await tasks.until(lambda: once.calls > 1 and supervisor.ready()[0], PATIENCE)
    assert once.calls > 1
    assert gateway.count("task_restarts", name) == 1
    assert gateway.service.supervisor.ready() == (True, "all run")
    assert gateway.count("task_failures", name) == 1

"""Reloads that an unexpected exception ends: readiness says so, and the next reload does all of it (row X-8)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bridges.kafka.bridge import ClusterBridge
from gateway import tasks
from gateway.connectors import connector
from gateway.forwarding.manager import BridgeManager
from gateway.nodes.scope import Scope
from gateway.server import gateway as service
from gateway.server import process
from gateway.server.listener import Listener
from tests.support.amqp.links import passes, receiving, refusal, sending
from tests.support.gateway.document import Document
from tests.support.gateway.in_process import InProcessGateway, fail_once, served
from tests.support.gateway.process import PATIENCE, answers, ports
from tests.support.servers.certs import Authority

pytestmark = pytest.mark.row("X-8")

BEFORE: dict[str, tuple[Any, str]] = {
    "reading the policy": (process, "load"),
    "reading what it names": (service, "load_credential_files"),
    "filters": (service, "make_filter_rules"),
    "a connector": (connector.Connector, "_config"),
    "a cluster": (ClusterBridge, "__init__"),
}
"""What is done before anything is replaced."""
AFTER: dict[str, tuple[Any, str]] = {
    "a scope": (Scope, "configure"),
    "an old connector": (connector.Connector, "close"),
    "bridges": (BridgeManager, "install"),
    "logins": (service, "close_revoked"),
    "links of bridges": (BridgeManager, "policy_changed"),
}
"""What replaces the old policy piece by piece."""


class Reloading:
    """A gateway and the policy file that it watches."""

    gateway: InProcessGateway

    def __init__(self, folder: Path) -> None:
        self.document = Document()
        (self.nobody,) = ports(1)
        self.document.connector(self.nobody)
        self.document.scope()["connect"][0]["backoff"] = {"min": "30s", "max": "60s"}
        self.document.kafka("embedded", topics={"log": 1})
        self.file = folder / "policy.json"
        self.file.write_text(self.document.text)

    def change(self) -> Document:
        """Another policy: a scope that moves, a cluster and a connector that are made anew."""
        changed = self.document.but()
        changed.scope()["addresses"][0]["match"] = "moved/**"
        changed.scope()["connect"][0]["idle_timeout"] = "77s"
        changed.data["kafka"]["main"]["topics"] = {"log": 2}
        changed.data["filters"] = {"max_depth": 7}
        return changed

    async def reload(self, document: Document) -> int:
        """Reload, wait for its end, and return how many have ended well."""
        self.file.write_text(document.text)
        return await self.reload_file()

    async def reload_file(self) -> int:
        """The same with what is in the file."""
        before = self.ended
        self.gateway.hup()
        await tasks.until(lambda: self.ended > before, PATIENCE)
        assert self.ended == before + 1
        return self.gateway.count("reloads", "ok")

    def listener(self, port: int) -> Listener:
        """The one that serves a port."""
        found = self.gateway.service.listeners
        return next(each for settings, each in found.items() if settings.model.bind.port == port)

    def sockets(self, port: int) -> dict[int, tuple[str, int]]:
        """Where the sockets of a listener listen, by what the system knows each by."""
        found = {}
        for each in self.listener(port).listening_sockets():
            with each:
                found[os.fstat(each.fileno()).st_ino] = each.getsockname()
        return found

    @property
    def ended(self) -> int:
        return sum(self.gateway.count("reloads", result) for result in ("ok", "failed", "error"))


@pytest.fixture
async def reloading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reloading]:
    """A gateway that serves, and reloads only at a signal."""
    monkeypatch.setattr(process, "_WATCH_INTERVAL", PATIENCE)
    made = Reloading(tmp_path)
    async with served(made.file, monkeypatch) as start:
        made.gateway = await start()
        await tasks.until(lambda: answers(made.document.edge) and made.gateway.part("kafka/main")[0], PATIENCE)
        yield made


@pytest.mark.parametrize("step", BEFORE)
async def test_before_anything_is_replaced_the_old_policy_stays_whole(
    step: str, reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, gateway = reloading.document.edge, reloading.gateway
    stays = await asyncio.to_thread(receiving, port, "chat/room")
    fail_once(*BEFORE[step], monkeypatch)
    changed = reloading.change()
    assert await reloading.reload(changed) == 0
    assert gateway.count("reloads", "error") == gateway.count("task_failures", "reload") == 1
    assert gateway.part("policy") == (True, "in force; the last reload failed (RuntimeError)")
    assert await asyncio.to_thread(refusal, port, "moved/room") == "amqp:not-found"
    sender = await asyncio.to_thread(sending, port, "chat/room")
    await asyncio.to_thread(passes, sender, stays)
    assert await reloading.reload(changed) == 1
    assert gateway.part("policy") == (True, "in force")
    await asyncio.to_thread(stays.until, "detach", closed=True, error="amqp:not-found")
    assert await asyncio.to_thread(receiving, port, "moved/room")


@pytest.mark.parametrize("step", AFTER)
async def test_halfway_the_gateway_is_not_ready_until_a_reload_has_done_all(
    step: str, reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, gateway = reloading.document.edge, reloading.gateway
    gone = await asyncio.to_thread(receiving, port, "chat/room")
    events = await asyncio.to_thread(sending, port, "events/log")
    fail_once(*AFTER[step], monkeypatch)
    changed = reloading.change()
    assert await reloading.reload(changed) == 0
    assert gateway.count("reloads", "error") == gateway.count("task_failures", "reload") == 1
    ready, detail = gateway.part("policy")
    assert (ready, "RuntimeError" in detail, "SIGHUP" in detail) == (False, True, True)
    reloading.file.write_text("no policy")
    assert await reloading.reload_file() == 0
    assert gateway.part("policy") == (False, detail)  # a policy that is refused mends nothing
    assert await reloading.reload(changed) == 1
    assert gateway.part("policy") == (True, "in force")
    await asyncio.to_thread(gone.until, "detach", closed=True, error="amqp:not-found")
    await asyncio.to_thread(events.until, "detach", closed=True, error="amqp:link:detach-forced")
    assert await asyncio.to_thread(receiving, port, "moved/room")


async def test_a_link_that_cannot_be_judged_goes_and_the_others_stay(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, gateway = reloading.document.edge, reloading.gateway
    peers = {address: await asyncio.to_thread(receiving, port, address) for address in ("chat/a", "chat/b")}
    fail_once(Scope, "revalidate", monkeypatch)
    changed = reloading.document.but()
    changed.scope()["addresses"].append({"match": "more", "direct": "balanced"})
    assert await reloading.reload(changed) == 1
    assert gateway.count("task_failures", "revalidation") == 1
    (stays,) = (str(link.address) for link in gateway.service.links() if link.open)
    (goes,) = peers.keys() - {stays}
    await asyncio.to_thread(peers[goes].until, "detach", closed=True, error="amqp:internal-error")
    sender = await asyncio.to_thread(sending, port, stays)
    await asyncio.to_thread(passes, sender, peers[stays])


async def test_a_listener_that_fails_keeps_no_other_from_being_served(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = reloading.gateway
    changed = reloading.change()
    one, other = changed.add_listener(), changed.add_listener()
    fail_once(Listener, "start", monkeypatch)
    assert await reloading.reload(changed) == 1
    ready, detail = gateway.part("listeners")
    assert (ready, gateway.count("task_failures", "listener")) == (False, 1)
    failed, serves = (one, other) if str(one) in detail else (other, one)
    assert answers(serves)
    assert await reloading.reload(changed) == 2
    assert gateway.part("listeners")[0]
    assert answers(failed)


async def test_a_port_in_use_is_told_while_a_reload_tries_it_again(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For that moment the gateway was ready."""
    changed, told, begin = reloading.document.but(), list[bool](), Listener.start

    async def start(listener: Listener, inherited: Sequence[socket.socket] = ()) -> None:
        told.append(reloading.gateway.part("listeners")[0])
        await begin(listener, inherited)

    with socket.create_server(("127.0.0.1", changed.add_listener())):
        assert await reloading.reload(changed) == 1
        monkeypatch.setattr(Listener, "start", start)
        assert await reloading.reload(changed) == 2
    assert told == [False]


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
async def test_a_listener_with_several_addresses_keeps_its_sockets(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secured: bool
) -> None:
    """As localhost has on most machines; whose sockets were bound anew refused clients for a moment."""
    loop, both = asyncio.get_running_loop(), ("127.0.0.1", "127.0.0.2")

    async def resolved(host: str | None, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in both]

    monkeypatch.setattr(loop, "getaddrinfo", resolved)
    changed = reloading.document.but()
    port = changed.add_listener()
    listener = changed.scope()["listen"][-1]
    listener["bind"] = f"localhost:{port}"
    if secured:
        pair = Authority(tmp_path).server()
        listener["tls"] = {"cert": str(pair.cert), "key": str(pair.key)}
    assert await reloading.reload(changed) == 1
    before = reloading.sockets(port)
    assert set(before.values()) == {(each, port) for each in both}
    listener["limits"] = {"links": 7}
    assert await reloading.reload(changed) == 2
    assert reloading.sockets(port) == before
    for each in both:
        with socket.create_connection((each, port), PATIENCE):
            await tasks.until(lambda: reloading.listener(port).busy, PATIENCE)
        await tasks.until(lambda: not reloading.listener(port).busy, PATIENCE)
    changed.scope()["listen"].pop()
    assert await reloading.reload(changed) == 3
    for each in both:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((each, port), PATIENCE)

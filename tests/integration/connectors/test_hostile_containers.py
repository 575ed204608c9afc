"""Containers that keep to no rules, or to narrow ones: few handles, no answers, long texts."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import tasks
from gateway.amqp.codec.types import Described, Symbol
from gateway.connectors import connector, unanswered
from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.links import connected
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.in_process import InProcessGateway, served
from tests.support.gateway.process import PATIENCE, wait_until

MOST = 1
"""The handle-max of each session of a narrow container: two links."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


def authenticated(listener: Listener) -> Peer:
    """The gateway's next connection, after its open."""
    far = listener.accept()
    far.expect_header(frames.SASL_HEADER).send_raw(frames.SASL_HEADER)
    far.send("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"]).expect("sasl_init")
    far.send("sasl_outcome", code=0).expect_header().send_raw(frames.AMQP_HEADER)
    far.expect("open")
    return far


def opened(listener: Listener, **fields: Any) -> Peer:
    """The gateway's next connection, after both opens."""
    return authenticated(listener).open(**fields)


handles = itertools.count()
"""The container's own handles, each used once."""


def attaches(far: Peer, count: int) -> tuple[list[Frame], int]:
    """Answer so many attaches, and the begins before them; return the attaches, and the number of begins."""
    found, begins = list[Frame](), 0
    while len(found) < count:
        frame = far.receive()
        assert frame is not None
        if frame.kind == "begin":
            begins += 1
            far.begin(frame.channel, remote_channel=frame.channel, handle_max=MOST)
        elif frame.kind == "attach":
            found.append(frame)
            termini = {name: frames.composite(name, **frame.fields[name]) for name in ("source", "target")}
            far.attach(frame.name, not frame.role, next(handles), channel=frame.channel, **termini)
    return found, begins


def detached(frame: Frame) -> tuple[int, int]:
    """What identifies the gateway's link."""
    return frame.channel, frame.handle


def three(client: Peer, first: int) -> None:
    """Attach three links to the container."""
    for handle in range(first, first + 3):
        client.attach(f"link-{handle}", SENDER, handle, target=frames.target("queues/x"))


def test_sessions_are_used_again_where_each_takes_few_links(start_gateway: Gateways, listener: Listener) -> None:
    document = Document()
    document.connector(listener.port)
    start_gateway(document.text, ready=False)
    far = opened(listener)
    with connected(document.edge) as client:
        for number, begins in ((0, 2), (3, 0), (6, 0)):
            three(client, number)
            ours = next(handles) + 1
            found, begun = attaches(far, 3)
            assert begun == begins
            for _ in range(3):
                client.until("attach")
            for handle in range(number, number + 3):
                client.detach(handle)
            for _ in range(3):
                detach = far.until("detach")
                there = next(n for n, each in enumerate(found) if (each.channel, each.handle) == detached(detach))
                far.detach(ours + there, channel=detach.channel)
            far.heard()  # else the next attaches may come before these detaches
            for _ in range(3):
                client.until("detach")


def test_no_handle_is_above_the_limit_of_the_session_on_a_new_connection(
    start_gateway: Gateways, listener: Listener
) -> None:
    document = Document()
    document.connector(listener.port)
    start_gateway(document.text, ready=False)
    far = opened(listener)
    with connected(document.edge) as client:
        three(client, 0)
        attaches(far, 3)
        for _ in range(3):
            client.until("attach")
        far.disconnect()
        far = opened(listener)
        again, begins = attaches(far, 3)
        assert sorted((each.channel, each.handle) for each in again) == [(0, 0), (0, 1), (1, 0)]
        assert begins == 2


def begun(start_gateway: Gateways, listener: Listener, **fields: Any) -> tuple[Document, Peer]:
    """A gateway with a connector, and the container whose session it has begun; `fields`: of the container's open."""
    document = Document()
    document.connector(listener.port)
    start_gateway(document.text, ready=False)
    far = opened(listener, **fields)
    far.expect("begin")
    far.begin(remote_channel=0)
    return document, far


def test_a_long_text_of_a_container_does_not_end_a_connection_with_small_frames(
    start_gateway: Gateways, listener: Listener
) -> None:
    document, far = begun(start_gateway, listener)
    with Peer(document.edge) as client:
        client.start(max_frame_size=512)
        three(client, 0)
        for refused in (True, False, False):
            attach = far.until("attach")
            target = None if refused else frames.target("x")
            far.attach(attach.name, not attach.role, attach.handle, target=target)
            error = frames.error("amqp:internal-error", "é" * 10_000, {Symbol("trace"): "t" * 10_000})
            far.detach(attach.handle, error=error)
            detach = client.until("detach", error="amqp:internal-error")
            assert detach.error["description"].startswith("ééé")
            assert len(detach.raw) <= 512
        client.attach("another", SENDER, 9, target=frames.target("chat/x"))
        assert client.until("attach", name="another").target is not None


LONG = {Symbol("long"): "x" * 1_000}


def test_a_long_attach_of_a_client_does_not_end_the_connection_of_all_to_a_container_with_small_frames(
    start_gateway: Gateways, listener: Listener
) -> None:
    document, far = begun(start_gateway, listener, max_frame_size=512)
    with connected(document.edge) as client:
        client.attach("long", SENDER, 0, target=frames.target("queues/x"), properties=LONG)
        assert "takes" in client.until("detach", error="amqp:frame-size-too-small").error["description"]
        selector = Described(Symbol("apache.org:selector-filter:string"), f"a = '{'x' * 1_000}'")
        source = frames.source("queues/x", filter={Symbol("s"): selector})
        client.attach("filter", RECEIVER, 1, source=source)
        client.until("detach", error="amqp:frame-size-too-small")
        client.attach("short", SENDER, 2, target=frames.target("queues/x"))
        attaches(far, 1)
        assert client.until("attach", name="short").target is not None


def test_a_long_answer_of_a_container_does_not_end_a_connection_with_small_frames(
    start_gateway: Gateways, listener: Listener
) -> None:
    document, far = begun(start_gateway, listener)
    with Peer(document.edge) as client:
        client.start(max_frame_size=512)
        client.attach("long", SENDER, 0, target=frames.target("queues/x"))
        attach = far.until("attach")
        far.attach(attach.name, not attach.role, next(handles), target=frames.target("queues/x"), properties=LONG)
        client.until("detach", error="amqp:frame-size-too-small")
        assert far.until("detach").handle == attach.handle
        client.attach("another", SENDER, 1, target=frames.target("chat/x"))
        assert client.until("attach", name="another").target is not None


def test_a_container_that_begins_no_session_is_not_connected(start_gateway: Gateways, listener: Listener) -> None:
    document = Document()
    document.connector(listener.port)
    gateway = start_gateway(document.text, ready=False)
    far = opened(listener)
    far.expect("begin")
    wait_until(lambda: "connected, but no session has begun" in gateway.get("/readyz")[1], "the reason in /readyz")
    far.begin(remote_channel=0)
    wait_until(gateway.is_ready, "the connector to be ready")


def detail(gateway: Gateway, words: str) -> str:
    """What `/readyz` says of the connector, once it has these words."""

    def found() -> str:
        parts = json.loads(gateway.get("/readyz")[1])["parts"]
        text = str(parts["connector/edge/broker"]["detail"])
        return text if words in text else ""

    return wait_until(found, f"{words} in /readyz")


def test_what_a_container_says_at_length_is_cut(start_gateway: Gateways, listener: Listener) -> None:
    """It stayed in memory, for a hundred different texts, and everybody who asked for `/readyz` got all of it."""
    long = frames.error("amqp:internal-error", "x" * 60_000)
    document = Document()
    document.connector(listener.port, pull=[{"from": "q", "to": "chat/room"}])
    gateway = start_gateway(document.text, ready=False)
    far = opened(listener)
    attaches(far, 1)
    far.detach(next(handles) - 1, error=long)
    assert len(detail(gateway, "not pulling from q: amqp:internal-error: xxx")) < 1000
    far.close(error=long)
    assert len(detail(gateway, f"{listener.port}: amqp:internal-error: xxx")) < 1000


async def listens(gateway: InProcessGateway) -> None:
    await tasks.until(lambda: any(each.listening for each in gateway.service.listeners.values()), PATIENCE)


def policy(tmp_path: Path, listener: Listener) -> Path:
    document = Document()
    document.connector(listener.port)
    file = tmp_path / "policy.json"
    file.write_text(document.text)
    return file


async def test_a_connection_without_a_session_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: Listener
) -> None:
    async with served(policy(tmp_path, listener), monkeypatch) as start:
        await start()
        far = await asyncio.to_thread(authenticated, listener)
        monkeypatch.setattr(connector, "_HANDSHAKE", 0.1)  # from the open on: what came before took its time
        far.open()
        await asyncio.to_thread(far.expect, "begin")
        await asyncio.to_thread(far.expect_eof)
        again = await asyncio.to_thread(listener.accept)
        again.disconnect()


def fleeting(port: int, far: Peer) -> Frame:
    """A client whose links come and go, at a container that answers no detach; returns the gateway's close."""
    with connected(port) as client:
        for handle in range(4):
            client.attach(f"link-{handle}", SENDER, handle, target=frames.target("queues/x"))
            attaches(far, 1)
            client.until("attach", name=f"link-{handle}")
            client.detach(handle).until("detach")
        client.attach("unanswered", SENDER, 5, target=frames.target("queues/x"))
        return far.until("close")


async def test_links_without_an_answer_do_not_grow_in_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: Listener
) -> None:
    monkeypatch.setattr(unanswered, "MOST", 2)
    monkeypatch.setattr(unanswered, "PATIENCE", 0.2)
    async with served(policy(tmp_path, listener), monkeypatch) as start:
        gateway = await start()
        await listens(gateway)
        far = await asyncio.to_thread(opened, listener)
        close = await asyncio.to_thread(fleeting, gateway.port, far)
        assert close.error.matches("amqp:resource-limit-exceeded")
        far.close()
        again = await asyncio.to_thread(opened, listener)
        again.disconnect()

"""Reloads that add, change and remove listeners, scopes, connectors and clusters (row X-8)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving, refusal, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import answers, wait_until
from tests.support.servers.certs import Authority

pytestmark = pytest.mark.row("X-8")

def test_listeners_come_and_go(start_gateway: Gateways) -> None:
    document = Document()
    first = document.edge
    gateway = start_gateway(document.text)
    stays = receiving(first, "chat/room")
    both = document.but()
    second = both.add_listener()
    gateway.reload(both.text)
    passes(sending(second, "chat/room"), stays, 0)
    only = both.but()
    del only.scope()["listen"][0]
    gateway.reload(only.text)
    wait_until(lambda: not answers(first), "the removed listener to refuse connections")
    passes(sending(second, "chat/room"), stays, 0)  # whoever is connected stays
    only.scope()["access"] = []
    gateway.reload(only.text)
    stays.until("detach", error="amqp:unauthorized-access")  # and is checked as every link


def test_a_listener_with_other_settings_at_the_same_port(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    old = receiving(document.edge, "chat/room")
    tighter = document.but()
    tighter.scope()["listen"][0]["limits"] = {"links": 1, "max_message_size": "100B"}
    gateway.reload(tighter.text)
    new = connected(document.edge)
    assert new.attach_sender("chat/room").max_message_size == 100
    new.attach("second", RECEIVER, handle=1)
    new.until("detach", handle=1, error="amqp:resource-limit-exceeded")
    passes(new, old, 0)


_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: `close` leaves nothing behind."""
_PACE = 0.0003
"""Seconds between two connections."""


@contextlib.contextmanager
def connecting(port: int) -> Iterator[list[OSError]]:
    """Somebody connects again and again; yields the errors."""
    over, errors = threading.Event(), list[OSError]()

    def connect() -> None:
        while not over.wait(_PACE):
            try:
                with socket.create_connection(("127.0.0.1", port)) as made:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            except OSError as error:
                errors.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        yield errors
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_a_listener_that_gets_other_settings_refuses_nobody_meanwhile(
    start_gateway: Gateways, tmp_path: Path, secured: bool
) -> None:
    """Its port was bound anew, and for a millisecond of each such reload nobody could connect."""
    document = Document()
    listener = document.scope()["listen"][0]
    if secured:
        pair = Authority(tmp_path).server()
        listener["tls"] = {"cert": str(pair.cert), "key": str(pair.key)}
    gateway = start_gateway(document.text)
    with connecting(document.edge) as errors:
        for number in range(5):
            listener["limits"] = {"links": 100 + number}
            gateway.reload(document.text)
    assert errors == []
    document.scope()["listen"].clear()
    gateway.reload(document.text)
    assert not answers(document.edge)


def test_a_port_in_use_is_reported_and_everything_else_is_done(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    with Listener() as taken:
        changed = document.but()
        changed.scope()["listen"].insert(0, {"bind": f"127.0.0.1:{taken.port}"})
        third = changed.add_listener()
        before = len(gateway.log())
        gateway.reload(changed.text)  # the last one: in another, the port would be tried again
        line = gateway.wait_log("cannot listen", after=before)
        assert str(taken.port) in line["bind"]
        assert connected(third).close().until("close")
        status, text = gateway.get("/readyz")
        assert (status, str(taken.port) in text) == (503, True)
        taken.close()
    wait_until(gateway.is_ready, "the port to be tried again")
    assert connected(taken.port).close().until("close")


def test_an_embedded_kafka_that_begins_anew_says_so(start_gateway: Gateways) -> None:
    document = Document()
    document.kafka("embedded", topics={"room": 1})
    gateway = start_gateway(document.text)
    before = len(gateway.log())
    document.data["kafka"]["main"]["topics"]["more"] = 1
    gateway.reload(document.text)
    assert "begins empty" in gateway.wait_log("policy warning", after=before)["warning"]
    before = len(gateway.log())
    document.add_listener()
    gateway.reload(document.text)
    assert not [line for line in gateway.log()[before:] if line["event"] == "policy warning"]


def test_a_file_that_does_not_answer_does_not_keep_the_gateway(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    os.mkfifo(gateway.policy.with_name("users.yaml"))
    document.scope()["listen"][0].update(sasl=["scram-sha-256"], users="users.yaml")
    gateway.hup(document.text)
    users = gateway.policy.with_name("users.yaml")
    writer = wait_until(lambda: read_by_somebody(users), "the gateway to read the pipe")
    assert connected(document.edge).close().until("close")
    gateway.stop()
    os.close(writer)


def read_by_somebody(pipe: Path) -> int:
    """Return a writer of a pipe that has a reader, or 0."""
    with contextlib.suppress(OSError):
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    return 0


def test_scopes_come_and_go(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    two = document.but()
    core = two.relay(replies="none", key={"file": "key"})
    gateway.policy.with_name("key").write_text("k" * 43)
    gateway.reload(two.text)
    receiver, sender = receiving(core, "services/echo"), sending(document.edge, "svc/echo")
    passes(sender, receiver, 0)
    gateway.reload(document.text)
    receiver.until("close", error="amqp:connection:forced")
    sender.until("detach", closed=True, error="amqp:not-found")
    assert refusal(document.edge, "svc/echo") == "amqp:not-found"
    wait_until(lambda: not answers(core), "the listener of the scope to go")


def test_connections_of_a_replaced_listener_go_with_their_scope(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    two = document.but()
    core = two.relay(replies="none", key={"file": "key"})
    gateway.policy.with_name("key").write_text("k" * 43)
    gateway.reload(two.text)
    peer = connected(core)
    two.scope("core")["listen"][0]["limits"] = {"links": 999}  # another listener at the same port
    gateway.reload(two.text)
    gateway.reload(document.text)
    peer.until("close", error="amqp:connection:forced")


def test_connectors_come_change_and_go(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    with Listener() as first, Listener() as second:
        using = document.but()
        using.connector(first.port)
        gateway.reload(using.text)
        sender, far = attached_through(document.edge, first)
        assert gateway.is_ready()
        other = document.but()
        other.connector(second.port)
        gateway.reload(other.text)
        far.until("close")
        sender.until("detach", closed=True, error="amqp:link:detach-forced")
        sender, far = attached_through(document.edge, second)
        gateway.reload(document.text)
        sender.until("detach", closed=True, error="amqp:not-found")
        far.until("close")
    assert "connector/" not in gateway.get("/readyz")[1]


def attached_through(port: int, listener: Listener) -> tuple[Peer, Peer]:
    """A sender whose far half the container behind the connector has accepted, a message already under way."""
    sender = connected(port)
    sender.attach("sender", SENDER, target=frames.target("queues/a"))
    far = listener.accept_started()
    asked = far.until("attach")
    far.attach(asked.name, RECEIVER, source=frames.source(), target=frames.target("queues/a"))
    far.flow(0, link_credit=5)
    sender.until("attach", target="queues/a")
    sender.until("flow", handle=0)
    sender.transfer(message(b"through"))
    assert far.until("transfer").payload == message(b"through")
    return sender, far


def test_clusters_come_change_and_go(start_gateway: Gateways) -> None:
    document = Document()
    gateway = start_gateway(document.text)
    using = document.but()
    using.kafka("embedded", topics={"orders": 1})
    gateway.reload(using.text)
    wait_until(gateway.is_ready, "the new cluster to be ready")
    stays, sender = receiving(document.edge, "chat/room"), sending(document.edge, "events/orders")
    sender.transfer(message(b"one")).until("disposition", state="accepted")
    using.data["kafka"]["main"]["topics"] = {"orders": 3}
    gateway.reload(using.text)
    sender.until("detach", closed=True, error="amqp:link:detach-forced")
    wait_until(gateway.is_ready, "the changed cluster to be ready")
    sender = sending(document.edge, "events/orders")
    sender.transfer(message(b"two")).until("disposition", state="accepted")
    gateway.reload(document.text)
    sender.until("detach", closed=True, error="amqp:not-found")
    assert "kafka/main" not in gateway.get("/readyz")[1]
    passes(sending(document.edge, "chat/room"), stays, 0)

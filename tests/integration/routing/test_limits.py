"""The limits of a listener: each refuses and counts what exceeds it, and does not affect other peers."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.amqp import frames
from tests.support.amqp.frames import AMQP_HEADER, SASL_HEADER
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.certs import Authority

LIMITS: dict[str, dict[str, Any]] = {
    "connections": {"connections": 3},
    "users": {"users": 2},
    "user_links": {"user_links": 2},
    "user_opens": {"user_opens_per_second": 1},
    "links": {"links": 2},
    "sessions": {"sessions": 2},
    "opens": {"opens_per_second": 1},
    "handshake": {"handshake": "2s"},
    "frames": {"max_frame_size": "1KiB"},
    "messages": {"max_message_size": "2000B"},
}
MANY = 2000


class Limited:
    """One gateway with a listener for each limit."""

    def __init__(self, start: Gateways, authority: Authority, users: Any) -> None:
        document = Document(id="gw-limits")
        self.free = document.edge
        document.scope()["listen"][0]["limits"] = {"opens_per_second": 20_000, "handshake": "60s"}
        users.write_text(put_user("", "alice", make_entry("wonderland", salt=b"salt of a test!!")))
        self.ports = {name: document.add_listener(limits=limits) for name, limits in LIMITS.items()}
        for listener in document.scope()["listen"]:
            if listener.get("limits") == LIMITS["users"]:
                listener |= {
                    "sasl": ["anonymous", "plain"],
                    "users": str(users),
                    "allow_plain_without_tls": True,
                }
        pair = authority.server(file="limits")
        tls = {"cert": str(pair.cert), "key": str(pair.key)}
        self.tls = document.add_listener(limits={"handshake": "6s", "connections": 2}, tls=tls)
        self.gateway = start(document.text)

    def counted(self, name: str, least: int = 1) -> None:
        """Wait until the counter has this value."""
        self.gateway.wait_metric(name, lambda value: value >= least)

    def bad_input(self, reason: str, least: int = 1) -> None:
        """The error is counted and logged."""
        self.counted(f'scopegate_bad_input_total{{reason="{reason}"}}', least)
        self.gateway.wait_log("bad input", reason=reason)


@pytest.fixture(scope="module")
def limited(
    start_module_gateway: Gateways, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Limited:
    users = tmp_path_factory.mktemp("limits") / "users.yaml"
    return Limited(start_module_gateway, authority, users)


@pytest.fixture(autouse=True)
def others_go_on(limited: Limited) -> Iterator[None]:
    """Two clients that were connected before a limit was reached still work afterwards."""
    receiver, sender = receiving(limited.free, "chat/others"), sending(limited.free, "chat/others")
    passes(sender, receiver, 0)
    yield
    passes(sender, receiver, 1)
    sender.disconnect()
    receiver.disconnect()


def is_dropped(port: int) -> bool:
    """Whether the gateway closes a new connection before it sends anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as peer:
        try:
            peer.sendall(SASL_HEADER)
            return not peer.recv(8)
        except ConnectionError:
            return True


def test_connections(limited: Limited) -> None:
    port = limited.ports["connections"]
    there = [connected(port) for _ in range(3)]
    assert is_dropped(port)
    limited.bad_input("too-many-connections")
    there[0].close().until("close")
    wait_until(lambda: not is_dropped(port), "room for another")
    for peer in there[1:]:
        peer.begin(1).expect("begin")  # they are still served


def test_connections_of_a_user(limited: Limited) -> None:
    port = limited.ports["users"]
    there = [Peer(port).sasl_plain("alice", "wonderland") for _ in range(3)]
    for peer in there[:2]:
        peer.negotiate()
    third = there[2].send_raw(AMQP_HEADER).expect_header().open()
    third.expect("open")
    assert "2" in third.until("close", error="amqp:resource-limit-exceeded").error["description"]
    limited.bad_input("too-many-connections-of-user")
    connected(port).close()  # another user
    third.close().expect_eof()
    there[0].close().expect("close")
    there[0].expect_eof()
    Peer(port).sasl_plain("alice", "wonderland").negotiate()


def test_links(limited: Limited) -> None:
    peer = connected(limited.ports["links"])
    peer.attach_sender("chat/a", 0)
    peer.attach_receiver("chat/b", 1)
    peer.attach("third", RECEIVER, 2, source=frames.source("chat/c"))
    error = peer.until("detach", error="amqp:resource-limit-exceeded").error
    assert "(2) exceeded" in error["description"]
    limited.counted('scopegate_links_refused_total{condition="amqp:resource-limit-exceeded",scope="edge"}')
    peer.detach(2).detach(1).until("detach", handle=1)
    peer.attach_receiver("chat/d", 1, name="fourth")


def test_links_of_a_user(limited: Limited) -> None:
    """Counted over all connections of the user, and decremented when a link ends."""
    first, second = (connected(limited.ports["user_links"]) for _ in range(2))
    first.attach_sender("chat/a", 0)
    first.attach_receiver("chat/b", 1)
    second.attach("third", RECEIVER, 0, source=frames.source("chat/c"))
    error = second.until("detach", error="amqp:resource-limit-exceeded").error
    assert "link limit of this user (2) exceeded" in error["description"]
    first.detach(1).until("detach", handle=1)
    second.detach(0)
    second.attach_receiver("chat/d", 1, name="fourth")


def test_opens_per_second_of_a_user(limited: Limited) -> None:
    port = limited.ports["user_opens"]
    peers = []
    for _ in range(30):
        peer = Peer(port).sasl_anonymous().send_raw(AMQP_HEADER).expect_header().open()
        peer.expect("open")
        peers.append(peer)
    limited.bad_input("too-many-opens-of-user", 1)
    for peer in peers:
        peer.disconnect()


def test_sessions(limited: Limited) -> None:
    peer = Peer(limited.ports["sessions"])
    assert peer.start().channel_max == 1
    peer.begin(1).expect("begin")
    peer.begin(2).until("close")


def test_opens_per_second(limited: Limited) -> None:
    port = limited.ports["opens"]
    assert sum(is_dropped(port) for _ in range(60)) >= 30
    limited.bad_input("too-many-opens", 30)
    wait_until(lambda: not is_dropped(port), "the next second")


@pytest.mark.parametrize("said", ["nothing", "sasl", "header"])
def test_handshake_time(limited: Limited, said: str) -> None:
    def ended() -> bool:
        """Whether so much was said before the time was over."""
        with Peer(limited.ports["handshake"]) as peer:
            try:
                say(peer, said)
            except (AssertionError, OSError):
                return False
            peer.expect_eof()
            return True

    wait_until(ended, "a client that says so much in two seconds")
    limited.bad_input("no open frame within the time limit")


def say(peer: Peer, what: str) -> None:
    """Begin a handshake, and stop there."""
    if what != "nothing":
        peer.sasl_anonymous()
    if what == "header":
        peer.send_raw(AMQP_HEADER).expect_header()


def test_handshake_time_of_tls(limited: Limited) -> None:
    before = limited.gateway.metrics().get("scopegate_tls_failures_total", 0.0)
    stalled = [Peer(limited.tls), Peer(limited.tls)]
    for peer in stalled:
        peer.send_raw(b"\x16\x03\x01\x02\x00\x01")
    assert is_dropped(limited.tls)  # the limit applies before the TLS handshake
    for peer in stalled:
        peer.read(1)
    limited.gateway.wait_metric("scopegate_tls_failures_total", lambda value: value >= before + 2)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    Peer(limited.tls, tls=context).start()


def test_frame_size(limited: Limited) -> None:
    peer = Peer(limited.ports["frames"])
    assert peer.start().max_frame_size == 1024
    peer.attach_sender("chat/a")
    peer.transfer(message(b"x" * 2000))
    peer.until("close", error="amqp:connection:framing-error")
    limited.bad_input("amqp:connection:framing-error")


def test_message_size(limited: Limited) -> None:
    peer = connected(limited.ports["messages"])
    receiver = receiving(limited.free, "chat/sized")
    assert peer.attach_sender("chat/sized").max_message_size == 2000
    peer.until("flow", handle=0)
    peer.transfer(message(b"x" * 2000))
    peer.until("detach", closed=True, error="amqp:link:message-size-exceeded")
    peer.detach(0)
    limited.counted('scopegate_links_ended_total{condition="amqp:link:message-size-exceeded",scope="edge"}')
    peer.attach("again", SENDER, 1, target=frames.target("chat/sized"))
    peer.until("flow", link_credit=10)
    small = message(b"x" * 1900)
    peer.transfer(small, 1)
    assert receiver.until("transfer").payload == small


async def test_two_thousand_connections_at_once(limited: Limited) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= MANY + 200, "this test needs more open files"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 200), hard))
    opened = await asyncio.gather(*(opens(limited.free, number) for number in range(MANY)))
    loop = asyncio.get_running_loop()
    metrics = await loop.run_in_executor(None, limited.gateway.metrics)
    assert metrics["scopegate_connections"] >= MANY
    for writer in opened:
        writer.close()
    await loop.run_in_executor(
        None, limited.gateway.wait_metric, "scopegate_connections", lambda value: value < 100
    )


async def opens(port: int, number: int) -> asyncio.StreamWriter:
    """Send all frames up to open at once; return when the gateway has sent its open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    init = frames.performative("sasl_init", mechanism="ANONYMOUS", initial_response=b"")
    opening = frames.framed(frames.performative("open", container_id=f"many-{number}"))
    writer.write(SASL_HEADER + frames.framed(init, kind=1) + AMQP_HEADER + opening)
    data = b""
    while b"gw-limits" not in data:
        piece = await asyncio.wait_for(reader.read(4096), PATIENCE)
        assert piece, "dropped"
        data += piece
    return writer

"""AMQP over WebSockets at a listener with `websocket`: the upgrade, messages split in any way, odd input (WS)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.support.amqp import frames
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE

PATH = "/$servicebus/websocket"
HEADER = b"AMQP\x00\x01\x00\x00"
AMQP = [Subprotocol("amqp")]


@pytest.fixture(scope="module")
def document() -> Document:
    found = Document()
    found.scope()["listen"][0]["websocket"] = PATH
    return found


@pytest.fixture(scope="module")
def gateway(start_module_gateway: Gateways, document: Document) -> Gateway:
    return start_module_gateway(document.text)


@pytest.fixture
def place(gateway: Gateway, document: Document) -> Iterator[str]:
    """Where the listener is; it still serves after the test."""
    yield f"ws://127.0.0.1:{document.edge}{PATH}"
    with connect(f"ws://127.0.0.1:{document.edge}{PATH}", subprotocols=AMQP) as client:
        opened(client)


def opened(client: ClientConnection, *, pieces: int = 100) -> None:
    """Exchange headers and opens; ours go in messages of so many bytes."""
    sent = HEADER + frames.framed(frames.performative("open", container_id="peer", idle_time_out=0))
    for at in range(0, len(sent), pieces):
        client.send(sent[at : at + pieces])
    got = b""
    while b"gw-test" not in got:
        message = client.recv(PATIENCE)
        assert isinstance(message, bytes)
        got += message
    assert got.startswith(HEADER)


def ended(client: ClientConnection) -> None:
    """Read to the end, which raises."""
    while True:
        client.recv(PATIENCE)


@pytest.mark.row("WS-1")
@pytest.mark.parametrize("name", ["amqp", "AMQPWSB10"])
@pytest.mark.parametrize("end", ["", "/", "?timeout=5"])
def test_the_upgrade(place: str, name: str, end: str) -> None:
    with connect(place + end, subprotocols=[Subprotocol(name)], compression=None) as client:
        assert client.subprotocol == name
        opened(client)


@pytest.mark.row("WS-2")
def test_messages_carry_bytes_and_not_frames(place: str) -> None:
    with connect(place, subprotocols=AMQP) as client:
        opened(client, pieces=1)
        assert client.ping().wait(PATIENCE)
        begin = frames.performative("begin", next_outgoing_id=0, incoming_window=10, outgoing_window=10)
        client.send(frames.framed(begin))
        assert client.recv(PATIENCE)
        client.send(frames.framed(frames.performative("close")))
        with pytest.raises(ConnectionClosedOK) as caught:  # behind our close frame
            ended(client)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1000


def test_a_message_is_read_as_it_comes(place: str) -> None:
    """A connection could hold a MiB of a message that nobody counted, and heartbeats in it were not heard."""
    sent = HEADER + frames.framed(frames.performative("open", container_id="peer", idle_time_out=0))
    with connect(place, subprotocols=AMQP) as client:
        client.socket.sendall(b"\x82\xfe\x40\x00" + bytes(4) + sent)  # of 16 KiB; a key of zeros masks nothing
        got = b""
        while b"gw-test" not in got:
            message = client.recv(PATIENCE)
            assert isinstance(message, bytes)
            got += message


@pytest.mark.row("WS-1", part="refused")
@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/other", {"subprotocols": AMQP}, 404),
        ("/$servicebus", {"subprotocols": AMQP}, 404),
        (PATH, {}, 400),
        (PATH, {"subprotocols": [Subprotocol("mqtt")]}, 400),
        (PATH, {"subprotocols": AMQP, "origin": "https://evil.example"}, 403),
        (PATH, {"subprotocols": AMQP, "origin": "null"}, 403),
    ],
)
def test_a_refused_upgrade(
    place: str, gateway: Gateway, document: Document, path: str, how: dict[str, object], status: int
) -> None:
    after = len(gateway.log())
    with pytest.raises(InvalidStatus) as caught:
        connect(f"ws://127.0.0.1:{document.edge}{path}", **how)  # type: ignore[arg-type]
    assert caught.value.response.status_code == status
    assert gateway.wait_log("bad input", after=after)["peer"].startswith("127.0.0.1:")


@pytest.mark.row("WS-1", part="same origin")
def test_pages_of_the_same_host_may_connect(place: str, document: Document) -> None:
    with connect(place, subprotocols=AMQP, origin=f"https://127.0.0.1:{document.edge}") as client:  # type: ignore[arg-type]
        opened(client)


@pytest.mark.row("WS-1", part="a whole URL")
@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"https://hubs.example{PATH}", b"101"),
        (f"https://hubs.example:443{PATH}?x=http://y/z", b"101"),
        ("https://hubs.example", b"404"),
        (f"https://hubs.example/other{PATH}", b"404"),
        (f"/https://hubs.example{PATH}", b"404"),
    ],
    ids=range(5),
)
def test_the_path_may_be_a_whole_url(place: str, document: Document, target: str, status: bytes) -> None:
    upgrade = (
        f"GET {target} HTTP/1.1\r\nHost: hubs.example\r\nConnection: Upgrade,Keep-Alive\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: OjdadqiONvuQYRItbhYSNA==\r\n"
        "Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
    )  # as Event Hubs' client for Java writes it
    with socket.create_connection(("127.0.0.1", document.edge), timeout=PATIENCE) as client:
        client.sendall(upgrade.encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 " + status)


@pytest.mark.row("WS-3")
@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (HEADER, b""),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 404"),
        (f"GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), b"HTTP/1.1 426"),
        (f"POST {PATH} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), b"HTTP/1.1 "),
        (b"GET /" + b"x" * 20_000, b"HTTP/1.1 414"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", b""),
        (b"\x00" * 9000, b""),
    ],
    ids=["AMQP", "another path", "no upgrade", "POST", "a long line", "TLS", "zeros"],
)
def test_what_is_no_upgrade_is_refused(
    place: str, document: Document, gateway: Gateway, first: bytes, answer: bytes
) -> None:
    after = len(gateway.log())
    with socket.create_connection(("127.0.0.1", document.edge), timeout=PATIENCE) as client:
        client.sendall(first)
        got = b""
        try:
            while chunk := client.recv(4096):
                got += chunk
        except ConnectionResetError:
            pass
    assert got.startswith(answer)
    gateway.wait_log("bad input", after=after)


@pytest.mark.row("WS-3")
@pytest.mark.parametrize(
    ("message", "code"), [("text", 1003), (bytes(2 * 1024 * 1024), 1009)], ids=["text", "a message of 2 MB"]
)
def test_messages_that_are_refused(place: str, message: str | bytes, code: int) -> None:
    with connect(place, subprotocols=AMQP) as client:
        opened(client)
        client.send(message)
        with pytest.raises(ConnectionClosedError) as caught:
            ended(client)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == code


@pytest.mark.row("WS-3")
def test_a_frame_without_a_mask_is_refused(place: str) -> None:
    with connect(place, subprotocols=AMQP) as client:
        client.socket.sendall(b"\x82\x08" + HEADER)
        with pytest.raises(ConnectionClosedError) as caught:
            client.recv(PATIENCE)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1002


@pytest.mark.row("WS-3")
def test_who_never_asks_is_dropped(start_gateway: Gateways) -> None:
    document = Document()
    document.scope()["listen"][0].update(websocket=PATH, limits={"handshake": "1s"})
    start_gateway(document.text)
    with socket.create_connection(("127.0.0.1", document.edge), timeout=PATIENCE) as client:
        client.sendall(b"GET ")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(10) == b""

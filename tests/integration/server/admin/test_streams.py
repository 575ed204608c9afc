"""The stream of changes: what it says, that it costs its clients and the gateway little, and that few are let in."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.amqp import frames
from tests.support.amqp.peer import Peer
from tests.support.cli.admin_port import DASH, OPS, AdminPort
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, free_port, wait_until

MESSAGE = b"\x00\x53\x75\xa0\x01x"
RULES = 500
MANY = 1000


@pytest.fixture(scope="module")
def admin(start_module_gateway: Gateways) -> AdminPort:
    document = Document()
    document.connector(free_port(), name="far")
    rules = [{"match": f"hall/with-a-long-name-for-a-rule-of-many/{n}/**", "direct": "balanced"} for n in range(RULES)]
    document.scope()["addresses"] += rules
    return AdminPort(start_module_gateway, document, ready=False)


class Stream:
    """A client that reads the stream of changes."""

    def __init__(self, admin: AdminPort, token: str = DASH) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=PATIENCE)
        self.connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
        self.answer = self.connection.getresponse()

    def events(self) -> Iterator[tuple[str, Any]]:
        """Names and documents of the events as they come, to the end of the stream."""
        name = ""
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))

    def until(self, name: str) -> Any:
        """The document of the next event of this name."""
        return next(document for found, document in self.events() if found == name)


def read_to_the_end(stream: Stream) -> None:
    """Read until the gateway ends the stream."""
    assert all(name for name, _ in stream.events())


def test_the_stream_tells_what_changes(admin: AdminPort) -> None:
    stream = Stream(admin)
    assert stream.answer.status == 200
    assert stream.answer.headers["content-type"].startswith("text/event-stream")
    assert stream.until("status")["gateway"] == "gw-test"
    stream.until("rates")
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/room")
        peer.flow(0, link_credit=10)
        peer.attach_sender("chat/room", 1)
        peer.until("flow", handle=1)
        (opened,) = stream.until("connections")["opened"]
        assert opened["scope"] == "edge"
        assert opened["user"] in (None, "anonymous"), "the stream may tell of it before it has logged in"
        assert admin.ask("GET", f"/connections/{opened['id']}")[1]["user"] == "anonymous"
        peer.attach("refused", False, 2, target=frames.target("nowhere"))
        peer.until("detach", closed=True)
        (refusal,) = stream.until("refusals")["items"]
        assert (refusal["address"], refusal["policy"]) == ("nowhere", "no address rule matches")
        for _ in range(5):
            peer.transfer(MESSAGE, handle=1)
        rates = stream.until("rates")
        while not (flows := [flow for flow in rates["flows"] if flow["rate"] > 0 and flow["direction"] == "in"]):
            rates = stream.until("rates")
        assert [(flow["rule"], flow["links"]) for flow in flows] == [("chat/**", 1)]
    assert stream.until("connections")["closed"] == [opened["id"]]
    stream.connection.close()


def test_the_rates_of_links_are_known_while_somebody_looks(admin: AdminPort) -> None:
    with Peer(admin.document.edge) as peer:
        peer.start()
        peer.attach_receiver("chat/room")
        peer.flow(0, link_credit=1000)
        peer.attach_sender("chat/room", 1)
        peer.until("flow", handle=1)

        def busy() -> list[dict[str, Any]]:
            peer.transfer(MESSAGE, handle=1)
            return admin.listed("/links?order=rate&limit=5")

        links = wait_until(busy, "a link with a rate")
        assert {link["address"] for link in links} == {"chat/room"}
        assert all(link["rate"] > 0 for link in links)
        assert admin.ask("GET", "/links?order=name")[0] == 400


def test_streams_without_end_and_readers_without_haste_do_no_harm(admin: AdminPort) -> None:
    """1,000 clients ask for the stream and never read: few are let in, they are dropped, and everybody else is served.
    """
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPS}\r\n\r\n".encode()
    with ExitStack() as stack:
        peer = stack.enter_context(Peer(admin.document.edge))
        peer.start()
        for at in range(RULES):  # each round of the stream is long
            peer.attach_receiver(f"hall/with-a-long-name-for-a-rule-of-many/{at}/x", at)
        for _ in range(MANY):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", admin.port))
            client.sendall(request)
        assert admin.run("status").returncode == 0
        admin.gateway.wait_metric('scopegate_bad_input_total{reason="event-stream-too-slow"}', lambda count: count > 0)
        peer.attach_sender("chat/room", RULES)  # traffic goes on
        peer.attach_receiver("chat/room", RULES + 1)
        peer.flow(RULES + 1, link_credit=10)
        peer.until("flow", handle=RULES)
        peer.transfer(MESSAGE, handle=RULES)
        peer.until("transfer")
        assert admin.ask("GET", "/status")[0] == 200
    wait_until(lambda: Stream(admin).answer.status == 200, "room for another stream")


def test_one_caller_leaves_streams_to_others(start_gateway: Gateways) -> None:
    admin = AdminPort(start_gateway, Document())
    with ExitStack() as stack:
        def opened(token: str) -> Stream:
            stream = Stream(admin, token)
            stack.callback(stream.connection.close)
            return stream

        streams = [opened(OPS) for _ in range(17)]
        assert [each.answer.status for each in streams] == [200] * 16 + [429]
        refused = json.loads(streams[16].answer.read())
        assert "16 event streams open, its limit" in json.dumps(refused)
        assert opened(DASH).answer.status == 200


def test_a_stream_ends_with_its_token_and_with_the_gateway(start_gateway: Gateways) -> None:
    admin = AdminPort(start_gateway, Document())
    with ExitStack() as stack:
        streams = [Stream(admin, OPS), Stream(admin, DASH)]
        for each in streams:
            stack.callback(each.connection.close)
            each.until("status")
        del admin.document.data["gateway"]["admin"]["tokens"]["ops"]
        admin.gateway.reload(admin.document.text)
        read_to_the_end(streams[0])
        assert streams[1].until("policy")["digest"]
        admin.gateway.stop()
        read_to_the_end(streams[1])

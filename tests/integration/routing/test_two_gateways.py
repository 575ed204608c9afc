"""Two gateways in a row that use the same name for the scopes between them: nested cookies, and long dialogues.

Each gateway has its own keys and only knows the address of the other.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, sections
from tests.support.gateway.crossing import KEY, Inbox, Outbox, answer, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

ENV = {"SCOPEGATE_KEY_A": KEY, "SCOPEGATE_KEY_B": KEY[::-1]}
FIRST = """
gateway: {{id: gateway-a, http: "127.0.0.1:{http}"}}
keys: {{active: a, ring: {{a: {{env: SCOPEGATE_KEY_A}}}}}}
scopes:
  clients:
    listen: [{{bind: "127.0.0.1:{clients}"}}]
    addresses:
      - {{match: "svc/{{name}}", relay: transit, address: "services/{{name}}"}}
      - {{match: "q/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  transit:
    connect:
      - {{name: gateway-b, to: "amqp://127.0.0.1:{transit}", replies: {{address: {own}}}}}
    addresses: [{{match: "**", relay: gateway-b}}]
"""
SECOND = """
gateway: {{id: gateway-b, http: "127.0.0.1:{http}"}}
keys: {{active: b, ring: {{b: {{env: SCOPEGATE_KEY_B}}}}}}
scopes:
  transit:
    listen: [{{bind: "127.0.0.1:{transit}"}}]
    addresses:
      - {{match: "services/*", relay: third}}
      - {{match: "responses/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  third:
    listen: [{{bind: "127.0.0.1:{third}"}}]
    addresses:
      - {{match: "services/*", direct: balanced}}
      - {{match: "q/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
OWN = ["responses/gateway-a", "dynamic"]
_names = (f"n{number}" for number in itertools.count())


class Row(NamedTuple):
    """The ports of the first scope and of the last."""

    clients: int
    third: int


@pytest.fixture(scope="module", params=OWN, ids=["named", "dynamic"])
def row(request: pytest.FixtureRequest, start_module_gateway: Gateways) -> Row:
    clients, transit, third, http_a, http_b = ports(5)
    start_module_gateway(SECOND.format(transit=transit, third=third, http=http_b), env=ENV)
    policy = FIRST.format(clients=clients, transit=transit, http=http_a, own=request.param)
    start_module_gateway(policy, env=ENV)
    return Row(clients, third)


@pytest.fixture
def name() -> str:
    return next(_names)


@pytest.mark.row("RA-2.3-17", "RA-2.2-1", "RA-2.2-4", "RA-2.4-3")
@pytest.mark.parametrize("capable", [True, False])
def test_a_cookie_within_a_cookie(row: Row, name: str, capable: bool) -> None:
    """The service behind two gateways supports cookies or not; each gateway only restores what it changed."""
    service = Inbox(row.third, f"services/{name}", capable=capable)
    answers = Inbox(row.clients, None, source=frames.source(None, dynamic=True))
    client = Outbox(row.clients, f"svc/{name}")
    client.credit()
    sent = message(b"ask", reply_to=str(answers.attach.source["address"]), message_id="m-1")
    client.post(sent)
    got = service.take()
    reported = hop_annotations(got)
    if capable:
        assert bare(got) == bare(sent)
        assert reported["response-link-target-address"] == "$replies.third"
        reply = answer(reported["response-address-cookie"], correlation_id="m-1")
        responder = Outbox(row.third, "$replies.third")
        responder.post(reply)
    else:
        assert reported == {}
        asked = sections(got)["properties"]
        responder = Outbox(row.third, asked["reply_to"])
        responder.post(message(b"answer", correlation_id=asked["message_id"]))
    home = answers.take()
    assert sections(home)["data"] == b"answer"
    assert sections(home)["properties"]["correlation_id"] == "m-1"
    assert hop_annotations(home) == {}


class End:
    """One side of a dialogue: answers every message to its reply-to, and requests a response itself."""

    def __init__(self, port: int, address: str, capable: bool) -> None:
        self.inbox = Inbox(port, address, capable=capable)
        self._port = port
        self._got = b""

    def take(self) -> tuple[bytes, object]:
        """Return the body and the correlation-id of the next message."""
        self._got = self.inbox.take()
        got = sections(self._got)
        return got["data"], got["properties"].get("correlation_id")

    def go_on(self, body: bytes, own: str, message_id: str) -> None:
        """Answer it, and ask for a response at `own`."""
        got, reported = sections(self._got)["properties"], hop_annotations(self._got)
        cookie, target = reported.get("response-address-cookie"), reported.get("response-link-target-address")
        fields = {"reply_to": own, "message_id": message_id, "correlation_id": got["message_id"]}
        if cookie is None:
            reply = message(body, to=got["reply_to"], **fields)
        else:
            reply = answer(cookie, body, to=got["reply_to"], **fields)
        self._answers = Outbox(self._port, target or got["reply_to"])  # open until the answer has arrived
        self._answers.post(reply)


@pytest.mark.row("RA-2.3-17", "RA-2.5-6", "RA-2.5-7", "RA-2.5-10")
@pytest.mark.parametrize("capable", [(True, True), (True, False), (False, True), (False, False)])
def test_a_dialogue_over_two_gateways(row: Row, name: str, capable: tuple[bool, bool]) -> None:
    """Five turns: every response requests another one; each side supports cookies or not."""
    own = f"q/{name}"
    service, client = End(row.third, own, capable[0]), End(row.clients, own, capable[1])
    first = Inbox(row.third, f"services/{name}", capable=capable[0])
    asking = Outbox(row.clients, f"svc/{name}")
    asking.credit()
    asking.post(message(b"0", reply_to=own, message_id="id-0"))
    service.inbox, later = first, service.inbox
    last = None
    for number in range(5):
        side = client if number % 2 else service
        assert side.take() == (b"%d" % number, last)
        service.inbox, last = later, f"id-{number}"
        side.go_on(b"%d" % (number + 1), own, f"id-{number + 1}")
    assert client.take() == (b"5", "id-4")

"""Two gateways in a row and a broker that strips delivery annotations: docs/guide/two-networks.md, by its own files.

A client in network A asks a service at a broker in network B. Gateway A annotates, for gateway B announces that it
understands; gateway B rewrites, for the broker announces nothing; nobody told either to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from proton import Message

from tests.support import frames
from tests.support.crossing import KEY, Inbox, Outbox, answer, hop_annotations
from tests.support.foreign import Foreign
from tests.support.forwarder import Forwarder
from tests.support.gateway import Gateway, Gateways
from tests.support.messages import bare, message, sections
from tests.support.process import ports, wait_until
from tests.support.proton_clients import Login, receive, send
from tests.support.servers import Artemis

EXAMPLES = Path(__file__).resolve().parents[2] / "policies" / "examples"
ENV = {"SCOPEGATE_KEY_A": KEY, "SCOPEGATE_KEY_B": KEY[::-1], "BROKER_PASSWORD": "admin"}
RESPONSES = "responses.gateway-b"
_names = (f"n{number}" for number in itertools.count())


class Place(NamedTuple):
    """Where clients attach, the two gateways, the broker, and the wire between gateway B and it."""

    port: int
    transit: int
    a: Gateway
    b: Gateway
    broker: Artemis
    wire: Forwarder

    @property
    def beyond(self) -> Login:
        """The broker itself."""
        return Login(self.broker.port, self.broker.user, self.broker.password)


def example(name: str, replaced: dict[int, int]) -> str:
    """Return an example policy with other ports."""
    text = (EXAMPLES / name).read_text()
    for port, other in replaced.items():
        text = text.replace(f":{port}", f":{other}")
    return text


def started(gateways: Gateways, artemis: Artemis, wire: Forwarder, own: str = "responses/gateway-a") -> Place:
    """Start both gateways; `own` is where gateway A takes responses at gateway B."""
    clients, transit, http_a, http_b = ports(4)
    replaced = {5672: clients, 5772: transit, 8672: http_a, 8772: http_b, 5872: wire.port}
    # Two gateways that read one queue take responses for each other: only the first is called gateway-b.
    policy = example("network-b.yaml", replaced).replace(RESPONSES, RESPONSES if own != "dynamic" else "responses.own")
    b = gateways(policy, env=ENV)
    policy = example("network-a.yaml", replaced).replace("address: responses/gateway-a", f"address: {own}")
    a = gateways(policy, env=ENV)
    return Place(clients, transit, a, b, artemis, wire)


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, artemis: Artemis) -> Iterator[Place]:
    with Forwarder(artemis.port) as wire:
        yield started(start_module_gateway, artemis, wire)


@pytest.fixture
def name() -> str:
    return next(_names)


@pytest.mark.row("RA-2.3-17", "RA-2.3-18", "RA-2.5-5", "RA-2.5-6", "RA-2.5-7", "RA-2.5-10")
@pytest.mark.parametrize("pattern", ["correlation-id", "message-id"])
@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_an_unmodified_client_asks_an_unmodified_service(place: Place, library: str, pattern: str, name: str) -> None:
    service = Foreign(library, place.broker.port, place.broker.user, place.broker.password)
    serving = service.run("respond", f"requests.{name}", count=2, correlate=pattern).attached()
    got = Foreign(library, place.port).run("request", f"svc/{name}", count=2, body="hello {n}").finish()
    assert [line["body"] for line in got] == ["re: hello 0", "re: hello 1"]
    ids = [line["correlation_id"] for line in got]
    if pattern == "correlation-id":
        assert ids == ["request-0", "request-1"]
    else:
        assert not any("sg-" in each for each in ids)
        assert library == "jms" or ids == ["m-0", "m-1"]
    seen = [line for line in serving.finish() if line["event"] == "message"]
    assert all(RESPONSES in line["reply_to"] for line in seen)
    assert all("$temp" not in str(line) for line in seen)
    assert all("ID:sg-" in line["message_id"] and "ID:sg-" in line["correlation_id"] for line in seen)


def asked(place: Place, name: str, reply_to: str) -> Message:
    """Ask at network A; return the request as the service gets it at the broker."""
    sent = message(b"ask", reply_to=reply_to, message_id="m-1", subject="s", app={"n": 1})
    assert Outbox(place.port, f"svc/{name}").send_with_credit(sent).matches("accepted")
    return receive(place.beyond, f"requests.{name}", 1).finish()[0].message


def inbox(place: Place) -> tuple[Inbox, str]:
    """Attach a place for responses; return it and its address."""
    answers = Inbox(place.port, None, source=frames.source(None, dynamic=True))
    return answers, str(answers.attach.source["address"])


@pytest.mark.row("RA-2.3-18", "RA-2.5-9")
def test_what_is_no_response_of_ours_is_rejected_at_the_broker_and_counted(place: Place, name: str) -> None:
    answers, address = inbox(place)
    request = asked(place, name, address)
    refused = 'scopegate_messages_refused_total{condition="amqp:not-found",scope="servers"}'
    before = place.b.metrics().get(refused, 0.0)
    for forged in (None, "m-1", request.id[:-2] + "AA"):
        send(place.beyond, RESPONSES, [Message(body="forged", correlation_id=forged)]).finish()
    wait_until(lambda: place.b.metrics().get(refused, 0.0) == before + 3, "three refusals to be counted")
    send(place.beyond, RESPONSES, [Message(body="genuine", correlation_id=request.id)]).finish()
    assert sections(answers.take())["value"] == "genuine"


@pytest.mark.row("RA-2.5-6")


def test_a_cut_between_gateway_and_broker(place: Place, name: str) -> None:
    answers, address = inbox(place)
    request = asked(place, name, address)
    place.wire.cut()
    wait_until(lambda: place.b.get("/readyz")[0] != 200, "gateway B to notice")
    send(place.beyond, RESPONSES, [Message(body="meanwhile", correlation_id=request.id)]).finish()
    place.wire.mend()
    assert sections(answers.take())["value"] == "meanwhile"


@pytest.mark.row("RA-2.3-17", "RA-2.3-18")
def test_a_gateway_in_the_middle_restarts_between_request_and_response(place: Place, name: str) -> None:
    """Nothing is remembered there: the cookie of gateway A comes back out of the ids that gateway B had made."""
    answers, address = inbox(place)
    request = asked(place, name, address)
    place.b.kill()
    send(place.beyond, RESPONSES, [Message(body="late", correlation_id=request.id)]).finish()
    place.b.restart()
    assert sections(answers.take())["value"] == "late"


@pytest.mark.row("RA-2.3-17")
def test_a_dynamic_node_at_the_next_gateway_serves_as_well(
    start_gateway: Gateways, artemis: Artemis, name: str
) -> None:
    with Forwarder(artemis.port) as wire:
        place = started(start_gateway, artemis, wire, "dynamic")
        answers, address = inbox(place)
        request = asked(place, name, address)
        assert request.reply_to == "responses.own"
        send(place.beyond, request.reply_to, [Message(body="yes", correlation_id=request.id)]).finish()
        assert sections(answers.take())["value"] == "yes"


EARLIER = """
gateway: {{id: gw-c, http: "127.0.0.1:{http}"}}
keys: {{active: c, ring: {{c: {{env: SCOPEGATE_KEY_B}}}}}}
scopes:
  transit:
    listen: [{{bind: "127.0.0.1:{transit}"}}]
    addresses:
      - {{match: "services/*", relay: third}}
      - {{match: "responses/*", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  third:
    listen: [{{bind: "127.0.0.1:{third}"}}]
    addresses: [{{match: "services/*", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


@pytest.mark.row("RA-2.3-17", "RA-2.2-1", "RA-2.2-4", "RA-2.4-3")
@pytest.mark.parametrize("capable", [True, False])
def test_a_cookie_within_a_cookie(start_gateway: Gateways, capable: bool) -> None:
    """The service beyond two gateways takes cookies, or does not; each gateway undoes its own part."""
    clients, transit, third, http_a, http_b = ports(5)
    start_gateway(EARLIER.format(transit=transit, third=third, http=http_b), env=ENV)
    start_gateway(example("network-a.yaml", {5672: clients, 5772: transit, 8672: http_a}), env=ENV)
    service = Inbox(third, "services/x", capable=capable)
    answers = Inbox(clients, None, source=frames.source(None, dynamic=True))
    client = Outbox(clients, "svc/x")
    client.credit()
    sent = message(b"ask", reply_to=str(answers.attach.source["address"]), message_id="m-1")
    client.post(sent)
    got = service.take()
    told = hop_annotations(got)
    if capable:
        assert bare(got) == bare(sent)
        assert told["response-link-target-address"] == "$replies.third"
        reply = answer(told["response-address-cookie"], correlation_id="m-1")
        Outbox(third, "$replies.third").post(reply)
    else:
        assert told == {}
        asked = sections(got)["properties"]
        Outbox(third, asked["reply_to"]).post(message(b"answer", correlation_id=asked["message_id"]))
    home = answers.take()
    assert sections(home)["data"] == b"answer"
    assert sections(home)["properties"]["correlation_id"] == "m-1"
    assert hop_annotations(home) == {}

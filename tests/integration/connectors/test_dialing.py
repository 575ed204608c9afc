"""Relays through a connector to ActiveMQ Artemis: messages, outcomes, credit, filters, and a cut connection."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from proton import Message
from proton.reactor import Selector

from gateway.amqp.codec.codec import Described, Symbol
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.crossing import Inbox, Outbox, connected
from tests.support.gateway.forwarder import Forwarder
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, free_port, ports, wait_until
from tests.support.gateway.warm import shortened
from tests.support.servers.servers import Artemis

POLICY = """
gateway: {{id: gw-connector, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "far/**", relay: core}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "back/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    connect:
      - name: broker
        to: ["amqp://127.0.0.1:{nobody}", "amqp://127.0.0.1:{broker}"]
        sasl: {{mechanism: plain, user: admin, password: {{env: BROKER_PASSWORD}}}}
        allow_plain_without_tls: true
        backoff: {{min: 50ms, max: 100ms}}
        replies: {{address: gateway}}
    addresses:
      - {{match: "far/**", relay: broker}}
      - {{match: "back/**", relay: edge}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
ENV = {"SCOPEGATE_TEST_KEY": "k" * 43, "BROKER_PASSWORD": "admin"}
PATIENT = {"gateway.connectors.relay.ATTACH_PATIENCE": PATIENCE}
"""An attach waits for as long as the broker needs, however busy the machine is."""
SELECTOR = "apache.org:selector-filter:string"
_numbers = itertools.count(1)


class Place(NamedTuple):
    """A gateway whose scope core has a connector to Artemis; the wire between them can be cut."""

    edge: int
    core: int
    gateway: Gateway
    wire: Forwarder
    broker: Artemis

    @property
    def beyond(self) -> Login:
        """Artemis itself."""
        return Login(self.broker.port, self.broker.user, self.broker.password)


def start(gateways: Gateways, artemis: Artemis, wire: Forwarder) -> Place:
    edge, core, http = ports(3)
    policy = POLICY.format(edge=edge, core=core, http=http, broker=wire.port, nobody=free_port())
    return Place(edge, core, gateways(policy, env={**ENV, **shortened(PATIENT)}), wire, artemis)


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, artemis: Artemis) -> Iterator[Place]:
    with Forwarder(artemis.port) as wire:
        yield start(start_module_gateway, artemis, wire)


@pytest.fixture
def address() -> str:
    return f"far/{next(_numbers)}"


def test_to_the_broker_and_back(place: Place, address: str) -> None:
    for port in (place.edge, place.core):
        sent = send(Login(port), address, [Message(body=f"{n}") for n in range(50)]).finish()
        assert {outcome.name for outcome in sent} == {"accepted"}
    beyond = receive(place.beyond, address, 100).finish()
    assert [each.message.body for each in beyond] == [f"{n}" for n in range(50)] * 2
    send(place.beyond, address, [Message(body=f"{n}") for n in range(60)]).finish()
    got = receive(Login(place.core), address, 30).finish() + receive(Login(place.edge), address, 30).finish()
    assert [each.message.body for each in got] == [f"{n}" for n in range(60)]


@pytest.mark.row("CORE-5")
def test_the_bare_message_is_untouched(place: Place, address: str) -> None:
    sent = message(b"\0\xff", subject="s", app={"n": 1}, footer={"x-opt-f": 1}, correlation_id=b"\1\2")
    assert Outbox(place.edge, address).send_with_credit(sent).matches("accepted")
    assert bare(Inbox(place.edge, address).take()) == bare(sent)


def test_credit_is_what_the_client_gave(place: Place, address: str) -> None:
    send(place.beyond, address, [Message(body=f"{n}") for n in range(10)]).finish()
    inbox = Inbox(place.edge, address, credit=3)
    got = [sections(inbox.transfer().payload)["value"] for _ in range(3)]
    assert got == ["0", "1", "2"]
    rest = receive(place.beyond, address, 7).finish()
    assert [each.message.body for each in rest] == [f"{n}" for n in range(3, 10)]


def test_outcomes_reach_the_broker(place: Place, address: str) -> None:
    send(place.beyond, address, [Message(body=f"{n}") for n in range(3)]).finish()
    inbox = Inbox(place.edge, address, credit=3)
    inbox.take("accepted")
    inbox.take("released")
    inbox.take(frames.composite("modified", delivery_failed=True))
    again = receive(place.beyond, address, 2).finish()
    assert [(each.message.body, each.message.delivery_count) for each in again] == [("1", 0), ("2", 1)]


def test_a_selector_is_passed_on_and_echoed(place: Place, address: str) -> None:
    send(place.beyond, address, [Message(body=f"{n}", properties={"n": n}) for n in range(6)]).finish()
    given = {Symbol(SELECTOR): Described(Symbol(SELECTOR), "n > 3")}
    inbox = Inbox(place.edge, address, source=frames.source(address, filter=given))
    assert inbox.attach.source["filter"] == given
    assert [sections(inbox.take())["value"] for _ in range(2)] == ["4", "5"]
    assert inbox.empty()
    odd = receive(Login(place.edge), address, 1, options=Selector("n = 2")).finish()
    assert odd[0].message.body == "2"


def refusal(port: int, address: str) -> dict[str, Any]:
    """Attach with a selector that is none; return the error of the detach that follows."""
    peer = Peer(port)
    (peer.sasl_plain("admin", "admin").negotiate if address == "direct" else peer.start)()
    wrong = {Symbol(SELECTOR): Described(Symbol(SELECTOR), "no such (")}
    peer.attach("wrong", RECEIVER, source=frames.source("far/refused", filter=wrong))
    return dict(peer.until("detach", closed=True).error)


def test_a_refusal_of_the_broker_reaches_the_client_without_the_brokers_words(place: Place) -> None:
    there, here = refusal(place.broker.port, "direct"), refusal(place.edge, "far")
    assert there == {"condition": "amqp:invalid-field", "description": "Invalid filter", "info": None}
    assert here == there | {"description": "the node behind this address has refused this"}
    assert connected(place.edge).attach_receiver("far/other")


def test_a_drain_is_the_brokers_to_answer(place: Place, address: str) -> None:
    inbox = Inbox(place.edge, address, credit=0)
    assert inbox.empty()
    send(place.beyond, address, [Message(body=f"{n}") for n in range(3)]).finish()
    inbox.peer.flow(0, link_credit=8, delivery_count=inbox.received, drain=True)
    got = [sections(inbox.take())["value"] for _ in range(3)]
    assert got == ["0", "1", "2"]
    drained = inbox.peer.until("flow", handle=0)
    assert drained.link_credit == 0


def test_a_service_beyond_the_broker_answers_a_client_in_the_other_scope(place: Place, address: str) -> None:
    """The service reads at the broker and answers where the gateway takes responses, in its own scope."""
    answers = Inbox(place.edge, "q/answers")
    Outbox(place.edge, address).send_with_credit(message(reply_to="q/answers", message_id="m-1"))
    got = receive(place.beyond, address, 1).finish()[0].message
    reply = Message(body="yes", correlation_id=got.id)
    sending = send(Login(place.core), got.reply_to, [reply])
    home = sections(answers.take())
    assert home["value"] == "yes"
    assert home["properties"]["correlation_id"] == "m-1"
    assert sending.finish()[0].name == "accepted"


def test_an_answer_that_asks_crosses_on_its_way_to_the_broker(place: Place, address: str) -> None:
    """Asked from core, answered from edge, with a reply-to of edge's own, to a queue behind the connector."""
    service = Inbox(place.edge, "back/dialogue")
    client = Outbox(place.core, "back/dialogue")
    client.credit()
    client.post(message(reply_to=address, message_id="first"))
    asked = sections(service.take())["properties"]
    Outbox(place.edge, asked["reply_to"]).send(message(reply_to="back/dialogue", correlation_id=asked["message_id"]))
    got = sections(receive(place.beyond, address, 1).finish()[0].raw)["properties"]
    assert got["correlation_id"] == "first"
    assert got["reply_to"].startswith("$replies.core/")


def test_a_receiver_of_settled_messages_empties_the_queue(place: Place, address: str) -> None:
    send(place.beyond, address, [Message(body="once")]).finish()
    inbox = Inbox(place.edge, address, snd_settle_mode=1)
    assert inbox.transfer().settled
    inbox.peer.close().until("close")
    assert Inbox(place.edge, address).empty()


def test_anonymous_messages_reach_the_broker(place: Place, address: str) -> None:
    outcome = Outbox(place.edge, None).send(message(b"routed", to=address))
    assert outcome.matches("accepted")
    assert sections(receive(place.beyond, address, 1).finish()[0].raw)["data"] == b"routed"


@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_unmodified_clients_through_the_broker(place: Place, library: str, address: str) -> None:
    client = Foreign(library, place.edge)
    sent = client.run("send", address, count=3).finish()
    assert [line["outcome"] for line in sent] == ["accepted"] * 3
    assert [line["body"] for line in client.run("receive", address, count=3).finish()] == ["0", "1", "2"]


def ready(gateway: Gateway) -> bool:
    return gateway.is_ready()


def test_a_cut_connection(place: Place, address: str) -> None:
    """Links stay, what was under way is `modified`, what comes meanwhile is `released`; then it goes on."""
    sender, inbox = Outbox(place.edge, address), Inbox(place.edge, address + "/back")
    assert sender.send_with_credit(message(b"before")).matches("accepted")
    place.wire.cut()
    wait_until(lambda: not ready(place.gateway), "the gateway to notice")
    status, text = place.gateway.get("/readyz")
    assert status == 200, "clients are still served"
    assert "connector/core/broker" in text
    assert sender.send(message(b"meanwhile")).matches("released")
    waiting = Peer(place.edge)
    waiting.start()
    waiting.attach("waiting", SENDER, target=frames.target(address))
    place.wire.mend()
    wait_until(lambda: ready(place.gateway), "the connector to be back")
    assert waiting.until("attach").target.matches(address)
    wait_until(lambda: sender.send(message(b"after")).matches("accepted"), "the link to be there again")
    send(place.beyond, address + "/back", [Message(body="there")]).finish()
    assert sections(inbox.take())["value"] == "there"
    got = receive(place.beyond, address, 2).finish()
    assert [sections(each.raw)["data"] for each in got] == [b"before", b"after"]

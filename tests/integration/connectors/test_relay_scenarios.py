"""Scenarios of the anonymous terminus: mixed traffic on one link, and every error in every form (AT-E2E-2, AT-E2E-3).

With scripted peers for what is on the wire, and with unmodified proton, Qpid JMS and rhea for what they make of it:
a JMS or rhea responder answers over its anonymous producer, so its answers go where the request says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from proton import Message

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import SENDER
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.crossing import Inbox, Outbox, answer, connected, cookie_of, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-scenarios, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "kafka/{{topic}}", kafka: main}}
      - {{match: "svc/**", relay: core}}
      - {{match: "moved/**", redirect: "amqp://elsewhere.example"}}
      - {{match: echo, service: echo}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "denied/**", direct: balanced}}
    access:
      - {{who: "*", may: [send, receive], on: ["kafka/**", "svc/**", "moved/**", echo, "q/**"]}}
      - {{who: "*", may: info, on: "kafka/**"}}
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "svc/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
ERRORS = {
    "unknown": ("nope", "amqp:not-found"),
    "denied": ("denied/x", "amqp:unauthorized-access"),
    "redirected": ("moved/x", "amqp:link:redirect"),
    "$info": ("kafka/orders/$info", "amqp:not-allowed"),
    "unknown topic": ("kafka/nowhere", "amqp:not-found"),
    "forged": ("$replies.edge/forged", "amqp:not-found"),
}
FORMS: dict[str, dict[str, Any]] = {
    "unsettled": {},
    "unsettled, takes rejections": {"outcomes": ["amqp:accepted:list", "amqp:rejected:list"]},
    "unsettled, takes none": {"outcomes": ["amqp:accepted:list"]},
    "settled": {"settled": True},
    "settled, takes none": {"settled": True, "outcomes": ["amqp:accepted:list"]},
}


class Place(NamedTuple):
    """The ports of the scopes."""

    edge: int
    core: int


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    edge, core, http = ports(3)
    policy = POLICY.format(edge=edge, core=core, http=http)
    start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return Place(edge, core)


# -- mixed traffic


@pytest.mark.row("AT-2.1-2", "AT-2.2-1", "AT-2.2-3", "AT-2.2-4", "X-2", "X-4")
@pytest.mark.parametrize("settled", [False, True])
def test_one_link_to_nodes_of_every_kind(place: Place, settled: bool) -> None:
    """An event log with a target partition, a queue, a service of the other scope, a service of the gateway."""
    relay = Outbox(place.edge, None)
    relay.credit()
    own = "settled" if settled else "unsettled"
    home = Inbox(place.edge, f"q/home-{own}")
    there = {
        "log": Inbox(place.edge, "kafka/orders"),
        "queue": Inbox(place.edge, f"q/{own}"),
        "service": Inbox(place.core, f"svc/{own}", capable=True),
        "echo": home,
    }
    sent = {
        "log": message(b"event", to="kafka/orders", da={"event-streams-target-partition": Symbol("2")}),
        "queue": message(b"job", to=f"q/{own}", app={"n": 1}),
        "service": message(b"ask", to=f"svc/{own}", reply_to=f"q/home-{own}", message_id="m-1"),
        "echo": message(b"echo", to="echo", reply_to=f"q/home-{own}", message_id="m-2"),
    }
    posted = {name: relay.post(each, settled=settled) for name, each in sent.items()}
    got = {name: inbox.take() for name, inbox in there.items()}
    assert got["queue"] == sent["queue"]
    reported = hop_annotations(got["log"])
    assert reported["event-streams-source-partition"] == "2"
    assert "event-streams-target-partition" not in reported
    assert bare(got["log"]) == bare(sent["log"])
    assert bare(got["service"]) == bare(sent["service"])
    assert sections(got["echo"])["properties"]["correlation_id"] == "m-2"
    accepted = set(posted) if settled else set()
    while accepted < set(posted):
        frame = relay.peer.until("disposition", state="accepted")
        last = frame.first if frame.last is None else frame.last
        accepted |= {name for name, delivery in posted.items() if frame.first <= delivery <= last}
    responder = Outbox(place.core, "$replies.core")
    responder.post(answer(cookie_of(got["service"]), correlation_id="m-1"))
    assert sections(home.take())["properties"]["correlation_id"] == "m-1"


@pytest.mark.row("AT-2.2-1", "AT-2.2-2")
def test_a_stock_sender_on_one_null_target(place: Place) -> None:
    """proton, unmodified: what arrives, and each outcome, is what a link to each address gives."""
    addresses = ["q/stock", "kafka/orders", "nope", "svc/stock", "denied/x", "moved/x"]
    receivers = [
        receive(Login(place.core if address.startswith("svc") else place.edge), address, 2).attached()
        for address in ("q/stock", "kafka/orders", "svc/stock")
    ]
    login = Login(place.edge)
    relayed = send(login, None, [Message(address=address, body=address) for address in addresses]).finish()
    refused = {2: "amqp:not-found", 4: "amqp:unauthorized-access", 5: "amqp:link:redirect"}
    for at, outcome in enumerate(relayed):
        assert (outcome.name, outcome.condition) == ("rejected" if at in refused else "accepted", refused.get(at))
    for address, receiver in zip(("q/stock", "kafka/orders", "svc/stock"), receivers, strict=True):
        (direct,) = send(login, address, [Message(address=address, body=address)]).finish()
        assert direct.name == "accepted"
        assert [each.message.body for each in receiver.finish()] == [address, address]


@pytest.mark.row("AT-2.2-4")
@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_stock_responders_answer_to_nodes_of_every_kind(place: Place, library: str) -> None:
    there = {
        "kafka/orders": Inbox(place.edge, "kafka/orders"),
        f"q/{library}": Inbox(place.edge, f"q/{library}"),
        f"svc/{library}": Inbox(place.core, f"svc/{library}"),
    }
    responder = Foreign(library, place.edge).run("respond", "q/serve", count=len(there)).attached()
    requests = [Message(body=address, reply_to=address, correlation_id=address) for address in there]
    asking = send(Login(place.edge), "q/serve", requests)
    for address, inbox in there.items():
        assert sections(inbox.take())["properties"]["correlation_id"] == address
    assert [each.name for each in asking.finish()] == ["accepted"] * 3
    responder.finish()


# -- errors


def direct_error(port: int, address: str) -> dict[str, Any]:
    """Attach a sender to an address; return the error it is refused with."""
    peer = connected(port)
    peer.attach("direct", SENDER, target=frames.target(address))
    peer.expect("attach", target=None)
    return dict(peer.expect("detach", closed=True).error)


@pytest.mark.row("AT-2.2-4", "AT-2.2.2-1", "AT-2.2.2-2", "AT-2.2.2-3", "AT-2.2.2-5", "AT-2.2.2-6")
@pytest.mark.row("AT-2.2.2-4", part="not in a transaction")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ERRORS)
def test_every_error_in_every_form_is_that_of_the_direct_link(place: Place, name: str, form: str) -> None:
    """Rejected where that can be heard, else detached; the words are the same, and the delivery's tag is added."""
    address, condition = ERRORS[name]
    direct = direct_error(place.edge, address)
    assert direct["condition"] == condition
    fields = FORMS[form]
    outcomes, settled = fields.get("outcomes"), fields.get("settled", False)
    relay = Outbox(place.edge, None, source=frames.source(outcomes=outcomes))
    relay.credit()
    tag = b"\x00tag\xff"
    if settled or (outcomes and "amqp:rejected:list" not in outcomes):
        error = dict(relay.fails(message(to=address), settled=settled, delivery_tag=tag).error)
    else:
        error = dict(relay.send(message(to=address), delivery_tag=tag)["error"])
        assert relay.send(message(to=address)).name == "rejected"  # the link is still there
    info = dict(error.pop("info"))
    assert info.pop(Symbol("delivery-tag")) == tag
    assert {**error, "info": info or None} == direct


@pytest.mark.row("AT-2.2.2-1", "AT-2.2.2-2")
@pytest.mark.parametrize("name", ["unknown", "denied", "redirected", "$info"])
@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_stock_clients_hear_the_error(place: Place, library: str, name: str) -> None:
    address, condition = ERRORS[name]
    responder = Foreign(library, place.edge).run("respond", "q/errors").attached()
    (taken,) = send(Login(place.edge), "q/errors", [Message(body="ask", reply_to=address)]).finish()
    assert taken.name in ("accepted", "modified", "released")
    error = responder.fail()
    assert condition in str(error), error

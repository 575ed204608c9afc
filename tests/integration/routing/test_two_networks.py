"""Two gateways in a row between brokers that strip delivery annotations, with the files of docs/guide/two-networks.md.

A client of broker A sends a request to a service at broker B. Gateway A pulls and annotates it, since gateway B
announces support; gateway B rewrites it, since the broker announces none. Nothing of this is configured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from proton import Message

from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.proton_clients import receive, send
from tests.support.amqp.wiretap import CapturedMessage, Wiretap
from tests.support.gateway.crossing import Inbox, Outbox, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.networks import RESPONSES, Networks, networks
from tests.support.gateway.process import wait_until
from tests.support.plugins.fixtures import served
from tests.support.servers.servers import Artemis

_names = (f"n{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker_a() -> Iterator[Artemis]:
    """Return the broker of network A."""
    yield from served(Artemis())


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, broker_a: Artemis, artemis: Artemis) -> Iterator[Networks]:
    with networks(start_module_gateway, broker_a, artemis) as place:
        yield place


@pytest.fixture
def name() -> str:
    return next(_names)


@pytest.mark.row("RA-2.3-17", "RA-2.5-5", "RA-2.5-6", "RA-2.5-7", "RA-2.5-10")
@pytest.mark.parametrize("pattern", ["correlation-id", "message-id"])
@pytest.mark.parametrize("library", ["jms", "rhea"])
def test_an_unmodified_client_asks_an_unmodified_service(
    place: Networks, library: str, pattern: str, name: str
) -> None:
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


def request_across(place: Networks, name: str, reply_to: str) -> Message:
    """Send a request in network A; return it as the service at broker B receives it."""
    sent = message(b"ask", reply_to=reply_to, message_id="m-1", subject="s", app={"n": 1})
    assert Outbox(place.port, f"svc/{name}").send_with_credit(sent).matches("accepted")
    return receive(place.beyond, f"requests.{name}", 1).finish()[0].message


def inbox(place: Networks) -> tuple[Inbox, str]:
    """Attach a receiver for responses; return it and its address."""
    answers = Inbox(place.port, None, source=frames.source(None, dynamic=True))
    return answers, str(answers.attach.source["address"])


@pytest.mark.row("RA-2.3-18", "RA-2.5-9")
def test_what_is_no_response_of_ours_is_rejected_at_the_broker_and_counted(place: Networks, name: str) -> None:
    answers, address = inbox(place)
    request = request_across(place, name, address)
    refused = 'scopegate_messages_refused_total{condition="amqp:not-found",scope="servers"}'
    before = place.b.metrics().get(refused, 0.0)
    for forged in (None, "m-1", request.id[:-2] + "AA"):
        send(place.beyond, RESPONSES, [Message(body="forged", correlation_id=forged)]).finish()
    wait_until(lambda: place.b.metrics().get(refused, 0.0) == before + 3, "three refusals to be counted")
    send(place.beyond, RESPONSES, [Message(body="genuine", correlation_id=request.id)]).finish()
    assert sections(answers.take())["value"] == "genuine"


@pytest.mark.row("RA-2.5-6")
def test_a_cut_between_gateway_and_broker(place: Networks, name: str) -> None:
    answers, address = inbox(place)
    request = request_across(place, name, address)
    place.wire.cut()
    wait_until(lambda: not place.b.is_ready(), "gateway B to notice")
    send(place.beyond, RESPONSES, [Message(body="meanwhile", correlation_id=request.id)]).finish()
    place.wire.mend()
    assert sections(answers.take())["value"] == "meanwhile"


@pytest.mark.row("RA-2.3-17")
def test_a_gateway_in_the_middle_restarts_between_request_and_response(place: Networks, name: str) -> None:
    """Gateway B keeps no state: it restores gateway A's cookie from the ids that it generated before the restart."""
    answers, address = inbox(place)
    request = request_across(place, name, address)
    place.b.kill()
    send(place.beyond, RESPONSES, [Message(body="late", correlation_id=request.id)]).finish()
    place.b.restart()
    assert sections(answers.take())["value"] == "late"


@pytest.mark.row("RA-2.3-17")
def test_a_dynamic_node_at_the_next_gateway_serves_as_well(
    start_gateway: Gateways, broker_a: Artemis, artemis: Artemis, name: str
) -> None:
    with networks(start_gateway, broker_a, artemis, "dynamic") as place:
        answers, address = inbox(place)
        request = request_across(place, name, address)
        assert request.reply_to == "responses.own"
        send(place.beyond, request.reply_to, [Message(body="yes", correlation_id=request.id)]).finish()
        assert sections(answers.take())["value"] == "yes"


def only(seen: list[CapturedMessage]) -> CapturedMessage:
    """Return the one message of the dialogue on a wire, in one direction."""
    (one,) = seen
    return one


def hops(tap: Wiretap, body: str, *, sent: bool) -> list[CapturedMessage]:
    """Return the messages with this body that passed a wire in one direction."""
    return [each for each in tap.seen() if each.sent is sent and sections(each.data).get("value") == body]


@pytest.mark.row("RA-2.3-17", "RA-2.5-5", "RA-2.5-6", "RA-2.5-7", "RA-2.5-10")
def test_a_jms_client_at_broker_a_asks_a_jms_service_at_broker_b(place: Networks, name: str) -> None:
    """Follows the guide step by step; its statements about each connection are checked against the recordings."""
    service = Foreign("jms", place.broker.port, place.broker.user, place.broker.password)
    serving = service.run("respond", "requests.echo").attached()
    client = Foreign("jms", place.broker_a.port, place.broker_a.user, place.broker_a.password)
    (got,) = client.run("request", "svc.echo", body=f"hello {name}").finish()
    assert (got["body"], got["correlation_id"]) == (f"re: hello {name}", "request-0")
    serving.finish()

    asks, answers = f"hello {name}", f"re: hello {name}"
    pulled = only(hops(place.wire_a, asks, sent=False))
    across = only(hops(place.transit, asks, sent=True))
    beyond = only(hops(place.wire, asks, sent=True))
    answered = only(hops(place.wire, answers, sent=False))
    back = only(hops(place.transit, answers, sent=False))
    home = only(hops(place.wire_a, answers, sent=True))
    print("\n".join(described(each) for each in (pulled, across, beyond, answered, back, home)))

    request = sections(pulled.data)["properties"]
    assert (pulled.address, across.address, beyond.address) == ("svc.echo", "services/echo", "requests.echo")
    assert bare(across.data) == bare(pulled.data)
    reported = hop_annotations(across.data)
    assert reported["response-link-target-address"] == "responses/gateway-a"
    assert request["reply_to"].encode() not in reported["response-address-cookie"]
    rewritten = sections(beyond.data)["properties"]
    assert rewritten["reply_to"] == RESPONSES
    assert str(rewritten["message_id"]).startswith("ID:sg-")
    assert not hop_annotations(beyond.data)
    assert request["reply_to"] not in str(rewritten)

    assert (answered.address, back.address, home.address) == (RESPONSES, "responses/gateway-a", request["reply_to"])
    assert sections(answered.data)["properties"]["correlation_id"] == rewritten["correlation_id"]
    assert hop_annotations(back.data)["address-cookie"] == reported["response-address-cookie"]
    assert sections(home.data)["properties"]["correlation_id"] == "request-0"
    assert not hop_annotations(home.data)


def described(seen: CapturedMessage) -> str:
    """Return a line of the guide's table."""
    message = sections(seen.data)
    properties = message["properties"]
    named = {key: properties.get(key) for key in ("to", "reply_to", "message_id", "correlation_id")}
    return f"{seen.address}: {named} {hop_annotations(seen.data)}"


def test_what_broker_a_gave_is_accepted_only_when_broker_b_accepted(place: Networks, name: str) -> None:
    """Broker B is down: the request stays at broker A, and is delivered when B is back."""
    place.wire.cut()
    wait_until(lambda: not place.b.is_ready(), "gateway B to notice")
    send(place.before, "svc.echo", [Message(body=f"waits {name}", reply_to="q")]).finish()
    place.wire.mend()
    got = receive(place.beyond, "requests.echo", 1).finish()[0].message
    assert got.body == f"waits {name}"
    place.a.wait_metric("scopegate_unsettled", lambda value: value == 0)  # gateway A would send unsettled ones again


def test_requests_pulled_before_gateway_a_dies_are_not_lost(place: Networks, name: str) -> None:
    place.b.kill()
    bodies = [f"{name}-{number}" for number in range(20)]
    send(place.before, "svc.echo", [Message(body=body, reply_to="q") for body in bodies]).finish()
    place.a.kill()
    place.b.restart()
    place.a.restart()
    got = receive(place.beyond, "requests.echo", len(bodies)).finish()
    assert {each.message.body for each in got} == set(bodies)

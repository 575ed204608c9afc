"""A connector and a scripted far container: refusals, outcomes, silence, several URLs, and who it says it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Described, Symbol, encode
from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener, Peer
from tests.support.gateway.crossing import SUPPORTED, Outbox, connected, hop_annotations
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port, ports, wait_until

POLICY = """
gateway: {{id: gw-scripted, http: "127.0.0.1:{http}", log: json, drain: 1s}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "far/**", relay: core}}
      - {{match: "q/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    connect:
      - {{name: far, to: {to}, backoff: {{min: 20ms, max: 50ms}}, replies: {{address: gateway}}{more}}}
    addresses:
      - {{match: "far/**", relay: far}}
"""
ENV = {"SCOPEGATE_TEST_KEY": "k" * 43, "FAR_PASSWORD": "wonderland", "WRONG_PASSWORD": "looking-glass"}


def start(gateways: Gateways, to: str, more: str = "", *, ready: bool = True) -> tuple[int, Gateway]:
    """Start a gateway whose connector goes `to` these URLs; return its port and the gateway."""
    edge, http = ports(2)
    gateway = gateways(POLICY.format(edge=edge, http=http, to=to, more=more), env=ENV, ready=ready)
    return edge, gateway


class Place(NamedTuple):
    """A client's port, and the far container."""

    edge: int
    far: Peer
    opened: Frame


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, listener: Listener) -> Place:
    edge, gateway = start(start_module_gateway, f"amqp://127.0.0.1:{listener.port}", ready=False)
    far = listener.accept()
    opened = answered(far)
    wait_until(gateway.is_ready, "the connector to be open")
    return Place(edge, far, opened)


def answered(far: Peer) -> Frame:
    """Play the far container's part of the opening and of the session; return the gateway's open."""
    far.expect_header(frames.SASL_HEADER).send_raw(frames.SASL_HEADER)
    far.send("sasl_mechanisms", sasl_server_mechanisms=["PLAIN", "ANONYMOUS"])
    assert far.expect("sasl_init").mechanism == "ANONYMOUS"
    far.send("sasl_outcome", code=0).expect_header().send_raw(frames.AMQP_HEADER)
    opened = far.expect("open")
    far.open(offered_capabilities=[Symbol("RESPONSE_ANNOTATIONS_V1_0")])
    far.expect("begin")
    far.begin(remote_channel=0)
    return opened


class Half(NamedTuple):
    """A client's connection that asked for a link, and the attach that the far container got for it."""

    client: Peer
    attach: Frame


_handles = iter(range(1000))


def attach_through(place: Place, role: bool, address: str = "far/x", **fields: Any) -> Half:
    client = connected(place.edge)
    terminus = {"target": frames.target(address)} if role is SENDER else {"source": frames.source(address)}
    client.attach("link", role, **{**terminus, **fields})
    return Half(client, place.far.until("attach"))


def agree(place: Place, attach: Frame, handle: int, **fields: Any) -> None:
    """Accept the gateway's link under a handle of ours."""
    termini = {name: frames.composite(name, **attach.fields[name]) for name in ("source", "target")}
    place.far.attach(attach.name, not attach.role, handle, **{**termini, **fields})


@pytest.fixture(scope="module", autouse=True)
def session(place: Place) -> None:
    """A first link, which the far container refuses."""
    client = connected(place.edge)
    client.attach("first", SENDER, target=frames.target("far/first"))
    attach = place.far.until("attach")
    agree(place, attach, 900, target=None)
    place.far.detach(900, error=frames.error("amqp:not-found", "first"))
    client.until("detach", error="amqp:not-found")


@pytest.mark.row("RA-2.1-3")
def test_what_the_connector_offers_and_desires(place: Place) -> None:
    assert place.opened.container_id == "gw-scripted"
    assert "RESPONSE_ANNOTATIONS_V1_0" in place.opened.desired_capabilities.items
    assert place.opened.offered_capabilities.items == ("RESPONSE_ANNOTATIONS_V1_0",)  # for what a relay brings


ERROR: dict[str, Any] = {"description": "in these words", "info": {Symbol("hint"): "why", Symbol("n"): 7}}
TOLD: dict[str, Any] = {"description": "the node behind this address has refused this", "info": None}
"""What is left of it in another scope (RA 1)."""


@pytest.mark.row("CORE-2")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_refusal_keeps_its_condition(place: Place, role: bool) -> None:
    client, attach = attach_through(place, role)
    handle = next(_handles)
    agree(place, attach, handle, **{"target" if role is SENDER else "source": None})
    place.far.detach(handle, error=frames.error("vendor:no", **ERROR))
    client.expect("attach", **{"target" if role is SENDER else "source": None})
    detach = client.expect("detach", closed=True, error="vendor:no")
    assert detach.error.matches(TOLD)


def test_a_filter_that_nobody_applies_and_that_is_wrong_refuses_the_link(place: Place) -> None:
    """The far container leaves it out of its answer, and here it cannot be read."""
    wrong = {Symbol("f"): Described(Symbol("amqp:sql-filter"), "no such (")}
    client, attach = attach_through(place, RECEIVER, source=frames.source("far/x", filter=wrong))
    assert attach.source["filter"] == wrong
    agree(place, attach, handle := next(_handles), source=frames.source("far/x"))
    client.until("detach", closed=True, error="amqp:invalid-field")
    place.far.until("detach", closed=True)
    place.far.detach(handle)


def test_the_largest_message_of_the_far_container_is_passed_on_and_heeded(place: Place) -> None:
    client, attach = attach_through(place, SENDER)
    handle = next(_handles)
    agree(place, attach, handle, max_message_size=700)
    assert client.expect("attach").max_message_size == 700
    place.far.flow(handle, link_credit=5)
    client.until("flow", link_credit=5)
    client.transfer(message(bytes(600)))
    assert len(place.far.until("transfer").payload) < 700
    client.transfer(message(bytes(800)))
    client.until("detach", error="amqp:link:message-size-exceeded")


def test_the_largest_message_of_a_client_is_passed_on(place: Place) -> None:
    client, attach = attach_through(place, RECEIVER, max_message_size=700)
    agree(place, attach, next(_handles))
    assert attach.max_message_size == 700
    client.expect("attach")


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_link_the_far_container_ends_ends_here_too(place: Place, role: bool) -> None:
    client, attach = attach_through(place, role)
    handle = next(_handles)
    agree(place, attach, handle)
    client.expect("attach")
    place.far.detach(handle, error=frames.error("vendor:gone", **ERROR))
    assert client.until("detach", closed=True, error="vendor:gone").error.matches(TOLD)
    assert place.far.until("detach", handle=attach.handle, closed=True).error is None


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_link_the_client_ends_ends_there_too(place: Place, role: bool) -> None:
    client, attach = attach_through(place, role)
    agree(place, attach, next(_handles))
    client.expect("attach")
    client.detach(0).until("detach", handle=0, closed=True)
    place.far.until("detach", handle=attach.handle, closed=True)


@pytest.mark.parametrize("how", ["detach", "disconnect"])
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_client_that_leaves_before_the_answer(place: Place, role: bool, how: str) -> None:
    """The far link is answered after its client has gone: it is let go, and nobody else notices."""
    client, attach = attach_through(place, role)
    if how == "detach":
        client.detach(0).until("detach", handle=0)
    else:
        client.close().until("close")
    agree(place, attach, next(_handles))
    place.far.until("detach", handle=attach.handle, closed=True)
    assert connected(place.edge)


@pytest.fixture
def sending(place: Place) -> tuple[Outbox, int, Frame]:
    """A client's sender with credit of the far container, the far handle and the far attach."""
    return sender(place)


def sender(place: Place, *, capable: bool = False) -> tuple[Outbox, int, Frame]:
    client = connected(place.edge)
    client.attach("sender-0", SENDER, target=frames.target("far/out"))
    attach = place.far.until("attach")
    handle = next(_handles)
    capabilities = [SUPPORTED] if capable else None
    agree(place, attach, handle, target=frames.target("far/out", capabilities=capabilities))
    client.expect("attach")
    place.far.flow(handle, link_credit=7, delivery_count=0)
    outbox = Outbox.adopt(client)
    assert outbox.credit() == 7
    return outbox, handle, attach


OUTCOMES = {
    "accepted": frames.composite("accepted"),
    "released": frames.composite("released"),
    "rejected": frames.composite("rejected", error=frames.error("vendor:bad", **ERROR)),
    "modified": frames.composite(
        "modified",
        delivery_failed=True,
        undeliverable_here=True,
        message_annotations={Symbol("x-opt-why"): "late"},
    ),
}


@pytest.mark.row("AT-2.2-2")
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_outcomes_come_back_whole(place: Place, sending: tuple[Outbox, int, Frame], outcome: str) -> None:
    """From another scope: without the words of the container there."""
    outbox, _, attach = sending
    delivery = outbox.post(message(b"x"))
    transfer = place.far.until("transfer", handle=attach.handle)
    place.far.disposition(transfer.delivery_id, OUTCOMES[outcome])
    state = outbox.outcome(delivery)
    refused = frames.composite("rejected", error=frames.error("vendor:bad", **TOLD))
    modified = frames.composite("modified", delivery_failed=True, undeliverable_here=True)
    expected = {**OUTCOMES, "rejected": refused, "modified": modified}[outcome]
    assert encode(frames.composite(state.name, **whole(state))) == encode(expected)


def whole(state: Any) -> dict[str, Any]:
    """Return an outcome's fields with its error encoded again."""
    error = state.get("error")
    return {**state, **({"error": frames.composite("error", **error)} if error else {})}


def test_a_settled_message_goes_on_settled(place: Place, sending: tuple[Outbox, int, Frame]) -> None:
    outbox, _, attach = sending
    outbox.post(message(b"fire"), settled=True)
    transfer = place.far.until("transfer", handle=attach.handle)
    assert transfer.settled


@pytest.mark.row("RA-2.2-1", "RA-2.2-3", "RA-2.3-4")
@pytest.mark.row("RA-2.1-4")
@pytest.mark.parametrize("capable", [True, False])
def test_what_crosses_is_as_the_far_target_understands(place: Place, capable: bool) -> None:
    outbox, _, attach = sender(place, capable=capable)
    sent = message(reply_to="q/1", message_id="m")
    outbox.post(sent)
    got = place.far.until("transfer", handle=attach.handle).payload
    assert ("response-address-cookie" in hop_annotations(got)) is capable
    assert (bare(got) == bare(sent)) is capable
    assert sections(got)["properties"]["reply_to"].startswith("q/" if capable else "$replies.core/")


@pytest.mark.row("AT-2.3-3")
def test_without_anonymous_relay_there_it_takes_a_link_for_each_address(place: Place) -> None:
    outbox = Outbox(place.edge, None)
    for address in ("far/a", "far/b"):
        outbox.post(message(to=address))
        attach = place.far.until("attach")
        assert attach.target.matches(address)
        agree(place, attach, handle := next(_handles))
        place.far.flow(handle, link_credit=1, delivery_count=0)
        transfer = place.far.until("transfer", handle=attach.handle)
        place.far.disposition(transfer.delivery_id, "accepted")
        assert outbox.outcome(outbox.peer.last_delivery).matches("accepted")


def test_a_broker_that_vanishes(start_gateway: Gateways) -> None:
    """What was under way is `modified`, what comes meanwhile `released`; the link is attached again."""
    with Listener() as listener:
        edge, _ = start(start_gateway, f"amqp://127.0.0.1:{listener.port}", ready=False)
        far = listener.accept()
        answered(far)
        place = Place(edge, far, None)  # type: ignore[arg-type]
        client = connected(edge)
        client.attach("sender-0", SENDER, target=frames.target("far/out"))
        attach = far.until("attach")
        agree(place, attach, 0)
        far.flow(0, link_credit=7, delivery_count=0)
        outbox = Outbox.adopt(client)
        outbox.credit()
        under_way = [outbox.post(message(b"%d" % n)) for n in range(3)]
        for _ in under_way:
            far.until("transfer")
        far.disconnect()
        for delivery in under_way:
            assert outbox.outcome(delivery).matches({"delivery_failed": True})
        assert outbox.send(message(b"meanwhile")).matches("released")
        far = listener.accept()
        answered(far)
        place = place._replace(far=far)
        attach = far.until("attach")
        agree(place, attach, 0)
        far.flow(0, link_credit=7, delivery_count=0).heard()
        delivery = outbox.post(message(b"after"))
        transfer = far.until("transfer")
        assert sections(transfer.payload)["data"] == b"after"
        far.disposition(transfer.delivery_id, "accepted")
        assert outbox.outcome(delivery).matches("accepted")


def test_an_attach_waits_for_a_container_that_is_down_and_is_refused_in_the_end(start_gateway: Gateways) -> None:
    nobody = free_port()
    edge, gateway = start(start_gateway, f"amqp://127.0.0.1:{nobody}", ready=False)
    wait_until(lambda: "connector/core/far" in gateway.get("/readyz")[1], "/readyz to name the connector")
    patient, gone = connected(edge), connected(edge)
    anonymous = Outbox(edge, None)
    routed = anonymous.post(message(to="far/x"))
    for peer in (gone, patient):
        peer.attach("x", SENDER, target=frames.target("far/x"))
    gone.disconnect()
    patient.expect("attach", target=None)
    detach = patient.expect("detach", closed=True, error="amqp:link:detach-forced")
    assert detach.error["description"] == "the node behind this address has ended the link; try again"
    assert anonymous.outcome(routed).matches({"error": "amqp:link:detach-forced"})
    with Listener(nobody) as listener:
        answered(far := listener.accept())
        wait_until(gateway.is_ready, "the connector to be open")
        far.disconnect()


def test_several_urls_are_tried_in_turn(start_gateway: Gateways) -> None:
    with Listener() as first, Listener() as second:
        first_url, second_url = (f"amqp://127.0.0.1:{each.port}" for each in (first, second))
        _, gateway = start(start_gateway, f'["{first_url}", "{second_url}"]', ready=False)
        for listener in (first, second, first):
            far = listener.accept()
            answered(far)
            gateway.wait_log("connector open", to=f"amqp://127.0.0.1:{listener.port}")
            far.disconnect()

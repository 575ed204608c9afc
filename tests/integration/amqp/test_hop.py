"""Delivery annotations end at the hop they were sent on (CORE-5): each way out of the gateway, and what it may keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections, split
from tests.support.amqp.peer import RECEIVER, Listener
from tests.support.gateway.crossing import (
    SUPPORTED,
    Inbox,
    Outbox,
    Place,
    answer,
    connected,
    cookie_of,
    hop_annotations,
    pair,
    start,
)
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways

FOREIGN = {
    "x-opt-hop": 1,
    "foo": "bar",
    "event-streams-offset": Symbol("00000000000000000007"),
    "event-streams-target-partition": Symbol("1"),
}
OTHERS = {**FOREIGN, "address-cookie": b"of another gateway"}
ASKED = {"response-address-cookie", "response-link-target-address", "response-address-cookie-expiry"}


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-hop")


@pytest.mark.row("CORE-5")
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("header", [None, [], [True]])
def test_they_end_at_a_node_of_the_same_scope(place: Place, anonymous: bool, header: list[bool] | None) -> None:
    inbox = Inbox(place.edge, "q/hop")
    outbox = Outbox(place.edge, None if anonymous else "q/hop")
    outbox.credit()
    fields = {"header": header, "ma": {"x-opt-far": "kept"}, "to": "q/hop"}
    outbox.post(message(da=FOREIGN, **fields))
    assert inbox.take() == message(**fields)


@pytest.mark.row("CORE-5")
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize("route", ["plain", "rewrite", "svc"])
def test_they_do_not_cross_into_another_scope(place: Place, route: str, anonymous: bool) -> None:
    inbox = Inbox(place.core, f"services/hop-{route}")
    outbox = Outbox(place.edge, None if anonymous else f"{route}/hop-{route}")
    outbox.credit()
    asking = message(da=OTHERS, to=f"{route}/hop-{route}", reply_to="q/hop")
    for sent in (message(da=OTHERS, to=f"{route}/hop-{route}"), asking):
        outbox.post(sent)
        assert "delivery_annotations" not in split(inbox.take())


@pytest.mark.row("CORE-5", "RA-2-1")
@pytest.mark.parametrize("reply_to", [None, "q/hop"])
def test_an_annotated_request_has_the_gateways_annotations_alone(place: Place, reply_to: str | None) -> None:
    service, client, _, _ = pair(place, capable=True)
    client.post(message(da=OTHERS, reply_to=reply_to))
    assert set(hop_annotations(service.take())) == ASKED


@pytest.mark.row("CORE-5", "RA-2.4-3")
@pytest.mark.parametrize("anonymous", [False, True])
def test_those_of_a_responder_do_not_come_home(place: Place, anonymous: bool) -> None:
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    replies = Outbox(place.core, None if anonymous else "$replies.core")
    replies.credit()
    asked = {"response-link-target-address": "elsewhere", "response-address-cookie": b"c"}
    more = FOREIGN if anonymous else {**FOREIGN, **asked}
    replies.post(message(b"yes", to="$replies.core", da={"address-cookie": cookie, **more}))
    assert "delivery_annotations" not in split(answers.take())


@pytest.mark.row("CORE-5")
def test_those_of_a_responder_to_a_rewritten_request_do_not_come_home(place: Place) -> None:
    service, client, answers, reply_to = pair(place, capable=False)
    client.post(message(reply_to=reply_to, message_id="m"))
    to = sections(service.take())["properties"]["reply_to"]
    replies = Outbox(place.core, None)
    replies.credit()
    replies.post(message(b"yes", to=to, da=OTHERS))
    assert "delivery_annotations" not in split(answers.take())


@pytest.mark.row("CORE-5", "RA-2.4-1")
def test_what_a_gateway_behind_a_direct_node_is_to_verify_passes_there(place: Place) -> None:
    """Within one scope `address-cookie` may be another gateway's: its reply address may be a node here."""
    inbox, outbox = Inbox(place.edge, "q/theirs"), Outbox(place.edge, "q/theirs")
    outbox.credit()
    outbox.post(answer(b"theirs"))
    assert hop_annotations(inbox.take()) == {"address-cookie": b"theirs"}


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Callable[[], Far]]:
    with Listener() as listener:
        yield lambda: Far(start_gateway, listener, ", replies: {address: gateway}")


LOG = {name: value for name, value in FOREIGN.items() if name == "event-streams-offset"}
PARTITION = {name: value for name, value in FOREIGN.items() if name == "event-streams-target-partition"}


@pytest.mark.row("CORE-5", "ES-5.1.1-2")
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("scope", ["edge", "core"])
def test_a_container_behind_a_connector_is_another_hop(fars: Callable[[], Far], scope: str, log: bool) -> None:
    """What event logs and their clients say to each other passes where the container is an event log, nothing else."""
    far = fars().accept(*(["AMQP_EVENT_STREAMS_V1_0"] if log else []))
    port = getattr(far, scope)
    client = Outbox(port, None)
    client.credit()
    sent = {**FOREIGN, "address-cookie": b"c"} if scope == "edge" else FOREIGN
    client.post(message(da=sent, to="far/log"))
    attach = far.attach()
    far.take(attach)
    assert hop_annotations(far.transfer(attach)) == (PARTITION if log else {})
    reader = connected(port)
    reader.attach("reader", RECEIVER, source=frames.source("far/log"))
    handle = far.agree(far.peer.until("attach"))
    reader.until("attach")
    reader.flow(0, link_credit=1, delivery_count=0)
    far.peer.until("flow", link_credit=1, handle=handle)
    far.peer.transfer(message(da=FOREIGN), handle)
    assert hop_annotations(reader.until("transfer").payload) == (LOG if log else {})


ASKING = {"response-address-cookie": b"c", "response-link-target-address": "there"}


@pytest.mark.row("RA-2.3-3", part="the gateway attached the link")
@pytest.mark.parametrize(
    ("scope", "capable", "honoured"), [("core", False, False), ("core", True, True), ("edge", False, True)]
)
def test_a_container_may_annotate_where_our_target_says_so(
    fars: Callable[[], Far], scope: str, capable: bool, honoured: bool
) -> None:
    """A link of ours whose target does not announce support ends, as one of a peer does."""
    far = fars().accept()
    reader = connected(getattr(far, scope))
    target = frames.target("here", capabilities=[SUPPORTED] if capable else None)
    reader.attach("reader", RECEIVER, source=frames.source("far/x"), target=target)
    attach = far.attach()
    announced = attach.target["capabilities"]
    assert (announced is not None and SUPPORTED in announced.items) is honoured
    handle = far.agree(attach)
    reader.until("attach")
    reader.flow(0, link_credit=1, delivery_count=0)
    far.peer.until("flow", link_credit=1, handle=handle)
    far.peer.transfer(message(da=ASKING, reply_to="q/there"), handle)
    if honoured:
        reported = hop_annotations(reader.until("transfer").payload)
        assert set(reported) == (set(ASKING) if capable else set())
    else:
        assert far.peer.until("detach").error["condition"] == "amqp:not-implemented"
        assert reader.until("detach").error["condition"] == "amqp:not-implemented"

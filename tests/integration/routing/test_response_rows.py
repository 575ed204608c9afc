"""Rows of response routing, each with its visible effect, and annotations as literal bytes (RA 2.3, 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Listener
from tests.support.gateway.crossing import (
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

THEIRS = b"\x00\xfftheirs"
RETURNED = b"\x00\x53\x71\xc1\x1b\x02\xa3\x0eaddress-cookie\xa0\x08\x00\xfftheirs"
"""The whole section of delivery annotations on a response: one symbol, one binary."""
MAX_QUEUED = 250
"""Maximum number of messages that wait for one destination."""


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-response-rows")


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Callable[[str], Far]]:
    with Listener() as listener:
        yield lambda more: Far(start_gateway, listener, f", {more}")


class Service:
    """A service in core that received one request: `respond` sends its response as the request says."""

    def __init__(self, place: Place, request: bytes) -> None:
        asked = sections(request)["properties"]
        self.cookie = hop_annotations(request).get("response-address-cookie")
        self.asked = asked.get("message_id")
        self.to = asked["reply_to"] if self.cookie is None else "$replies.core"
        self.link = Outbox(place.core, self.to)
        self.link.credit()

    def respond(self, body: bytes) -> int:
        """Send one response; return its delivery id."""
        rewritten = message(body, correlation_id=self.asked)
        return self.link.post(rewritten if self.cookie is None else answer(self.cookie, body))


@pytest.mark.row("RA-2.3-1")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_each_of_three_responses_carries_the_cookie_of_the_request(place: Place, capable: bool) -> None:
    service, client, _, reply_to = pair(place, capable=capable)
    home = Inbox(place.edge, f"{reply_to}/t")
    asked = {"response-address-cookie": THEIRS, "response-link-target-address": f"{reply_to}/t"}
    client.post(message(b"ask", message_id="m-1", reply_to="elsewhere", da=asked))
    responder = Service(place, service.take())
    for body in (b"one", b"two", b"three"):
        delivery = responder.respond(body)
        got = home.take()
        assert sections(got)["data"] == body
        assert got.startswith(RETURNED)
        assert responder.link.outcome(delivery).matches("accepted")


@pytest.mark.row("RA-2.3-10")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_cookie_without_a_link_target_comes_back_where_reply_to_says(place: Place, capable: bool) -> None:
    """Requests with a link target precede and follow it: neither address accepts the other's responses."""
    service, client, by_to, reply_to = pair(place, capable=capable)
    by_target = Inbox(place.edge, f"{reply_to}/t")
    both = {"response-address-cookie": THEIRS, "response-link-target-address": f"{reply_to}/t"}
    cookie = {"response-address-cookie": THEIRS}
    for body, asked in ((b"1", both), (b"2", cookie), (b"3", both), (b"4", cookie)):
        client.post(message(body, message_id="m", reply_to=reply_to, da=asked))
        Service(place, service.take()).respond(body)
    for inbox, bodies in ((by_target, (b"1", b"3")), (by_to, (b"2", b"4"))):
        got = [inbox.take() for _ in bodies]
        assert [sections(each)["data"] for each in got] == list(bodies)
        assert all(each.startswith(RETURNED) for each in got)


@pytest.mark.row("RA-2.3-18")
@pytest.mark.parametrize("own", [False, True], ids=["dynamic node", "address of the gateway"])
def test_a_response_whose_cookie_a_broker_has_stripped_is_rejected(fars: Callable[[str], Far], own: bool) -> None:
    """The broker announces support by its capability and target, but strips annotations from responses."""
    far = fars("replies: {address: gateway}" if own else "annotations: trust").accept("RESPONSE_ANNOTATIONS_V1_0")
    home, client = Inbox(far.edge, "q/home"), connected(far.edge)
    client.attach("sender-0", SENDER, target=frames.target("far/x"))
    responses = None if own else far.respond_at("dynamic-1")
    attach = far.attach()
    far.take(attach, capable=True)
    client.until("flow", handle=0)
    client.transfer(message(b"ask", reply_to="q/home", message_id="m-1"))
    cookie = cookie_of(far.transfer(attach))
    broker = Outbox(far.core, "$replies.core").peer if own else far.peer
    broker.transfer(message(b"stripped", to="q/home", correlation_id="m-1"), responses or 0)
    received = broker.until("disposition", role=RECEIVER, settled=True)
    assert received.state.matches({"error": "amqp:unauthorized-access" if own else "amqp:not-found"})
    kept = message(b"kept", to="q/home", correlation_id="m-1", da={"address-cookie": cookie})
    broker.transfer(kept, responses or 0)
    assert sections(home.take())["data"] == b"kept"  # the first response to arrive: the stripped one was not delivered
    assert broker.until("disposition", role=RECEIVER, settled=True).state.matches("accepted")


@pytest.mark.row("RA-3-7")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_responder_hears_that_the_reply_address_is_gone(place: Place, capable: bool) -> None:
    service, client, _, _ = pair(place, capable=capable)
    requester = connected(place.edge)
    temporary = requester.attach_receiver(None, source=frames.source(None, dynamic=True)).source["address"]
    requester.flow(0, link_credit=10)
    client.post(message(reply_to=temporary, message_id="m"))
    responder = Service(place, service.take())
    first = responder.respond(b"in time")
    assert sections(requester.until("transfer").payload)["data"] == b"in time"
    requester.disposition(0, "accepted")
    assert responder.link.outcome(first).matches("accepted")
    requester.detach().until("detach", closed=True)
    outcome = responder.link.outcome(responder.respond(b"too late"))
    assert outcome.matches("rejected")
    assert outcome["error"]["condition"] == "amqp:not-found"


@pytest.mark.row("RA-3-7")
@pytest.mark.parametrize("capable", [True, False], ids=["annotated", "rewritten"])
def test_a_responder_hears_that_the_reply_address_is_full(place: Place, capable: bool) -> None:
    """The message beyond the limit is released; the others are delivered once the requester grants credit."""
    service, client, _, reply_to = pair(place, capable=capable)
    full = Inbox(place.edge, f"{reply_to}/full", credit=0)
    client.post(message(reply_to=f"{reply_to}/full", message_id="m"))
    responder = Service(place, service.take())
    waiting = [responder.respond(b"%d" % number) for number in range(MAX_QUEUED)]
    assert responder.link.outcome(responder.respond(b"too many")).matches("released")
    full.peer.flow(0, link_credit=MAX_QUEUED + 1)
    for number, delivery in enumerate(waiting):
        assert sections(full.take())["data"] == b"%d" % number
        assert responder.link.outcome(delivery).matches("accepted")
    last = responder.respond(b"room again")
    assert sections(full.take())["data"] == b"room again"
    assert responder.link.outcome(last).matches("accepted")

"""One requester that does not take its responses costs nobody else theirs (B2)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.amqp import frames
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox, Place, answer, connected, cookie_of, pair, start
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.transactions.together import together

DESTINATIONS = 256
"""How many destinations one link has at a time."""
_numbers = itertools.count()
Ask = Callable[[str], bytes]
CHECKS = 0.2
"""Seconds between two checks of destinations: one that hardly settles is noticed after ten of them."""
OFTEN = {"gateway.routing.fair_share.CHECK_INTERVAL": CHECKS}


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-stalled", constants=OFTEN)


def asking(place: Place) -> Ask:
    """What gives the cookie of a request that names a reply-to."""
    service, client, _, _ = pair(place, capable=True)
    service.peer.flow(0, link_credit=1000, delivery_count=0)

    def ask(reply_to: str) -> bytes:
        client.post(message(reply_to=reply_to))
        return cookie_of(service.take())

    return ask


def send_while_allowed(peer: Peer, handle: int, payloads: list[bytes]) -> int:
    """Send what credit allows; return how many that were."""
    allowed = peer.until("flow", handle=handle).link_credit
    for payload in payloads[:allowed]:
        peer.transfer(payload, handle)
    return int(min(allowed, len(payloads)))


def accepted(responder: Outbox, payload: bytes) -> bool:
    """Send; tell whether it was accepted. Destinations are stuck only after a while."""
    return bool(responder.send(payload).matches("accepted"))


def credit_again(peer: Peer, handle: int, sent: int) -> None:
    """Wait until more may be sent; what is released on the way is no matter."""
    while (flow := peer.until("flow", handle=handle)).delivery_count + flow.link_credit <= sent:
        pass


def others_are_answered(place: Place, peer: Peer, cookie: bytes, inbox: Inbox, sent: int) -> None:
    credit_again(peer, 0, sent)
    peer.transfer(answer(cookie, b"for others"), 0)
    assert sections(inbox.take())["data"] == b"for others"


def test_reply_addresses_where_nobody_receives_leave_credit_for_others(place: Place) -> None:
    ask = asking(place)
    stuck = [ask(f"q/nobody-{next(_numbers)}") for _ in range(4)]
    taker = f"q/taker-{next(_numbers)}"
    cookie, inbox = ask(taker), Inbox(place.edge, taker)
    responder = Outbox(place.core, "$replies.core")
    payloads = [answer(stuck[number % 4], b"%d" % number) for number in range(1040)]
    sent = send_while_allowed(responder.peer, 0, payloads)
    others_are_answered(place, responder.peer, cookie, inbox, sent)


def test_reply_addresses_where_nobody_receives_make_room_for_others_at_once(place: Place) -> None:
    """It took two seconds, and what came meanwhile was rejected."""
    ask = asking(place)
    stuck = [ask(f"q/many-{next(_numbers)}") for _ in range(DESTINATIONS)]
    taker = f"q/taker-{next(_numbers)}"
    cookie, inbox = ask(taker), Inbox(place.edge, taker)
    responder = Outbox(place.core, "$replies.core")
    send_while_allowed(responder.peer, 0, [answer(each, b"x") for each in stuck])
    outcome, got = sent_aside(responder, answer(cookie, b"for others"), inbox)
    assert outcome.matches("accepted")
    assert got == b"for others"


def sent_aside(sender: Outbox, payload: bytes, inbox: Inbox) -> tuple[Frame, bytes]:
    """Send, and take it at the same time."""
    with ThreadPoolExecutor() as aside:
        taken = aside.submit(inbox.take)
        return sender.send(payload), sections(taken.result())["data"]


def waiting_at(place: Place, addresses: list[str]) -> Peer:
    """A connection that receives at each address and grants no credit."""
    peer = connected(place.edge)
    for handle, address in enumerate(addresses):
        Inbox(peer, address, handle, credit=0)
    return peer


@pytest.mark.row("AT-2.2.2-14")
@pytest.mark.parametrize("target", ["$replies.core", None])
def test_what_finds_no_room_for_its_destination_is_released(place: Place, target: str | None) -> None:
    """It was rejected, which is final, though there is room again after two seconds.

    All that needs room comes at once, so that the last has none however slow the machine is.
    """
    ask = asking(place)
    addresses = [f"q/busy-{next(_numbers)}" for _ in range(DESTINATIONS + 1)]
    payloads = [message(b"x", to=each) if target is None else answer(ask(each), b"x") for each in addresses]
    receivers = waiting_at(place, addresses[:-1])
    inbox, sender = Inbox(place.edge, addresses[-1]), Outbox(place.edge if target is None else place.core, target)
    sender.credit()
    with together(sender.peer):
        *_, last = [sender.post(payload) for payload in payloads]
        sender.post(payloads[-1], settled=True)  # dropped, and its link goes on
    assert sender.outcome(last).matches("released")
    with ThreadPoolExecutor() as aside:
        taken = aside.submit(inbox.take)
        wait_until(lambda: accepted(sender, payloads[-1]), "room for one more")
        assert sections(taken.result())["data"] == b"x"
    receivers.disconnect()


def test_responses_that_are_taken_and_never_settled_leave_credit_for_others(place: Place) -> None:
    ask = asking(place)
    address, taker = f"q/holds-{next(_numbers)}", f"q/taker-{next(_numbers)}"
    held, cookie = ask(address), ask(taker)
    holder, inbox = Inbox(place.edge, address, credit=2000), Inbox(place.edge, taker)
    responder = Outbox(place.core, "$replies.core")
    sent = send_while_allowed(responder.peer, 0, [answer(held, b"x")] * 1000)
    others_are_answered(place, responder.peer, cookie, inbox, sent)
    holder.peer.disconnect()


def take_a_little(boxes: list[Inbox], enough: threading.Event) -> None:
    """Take one message at each of them now and then."""
    while not enough.wait(2 * CHECKS):
        for box in boxes:
            box.peer.flow(box.handle, link_credit=1, delivery_count=box.received)
            box.take()


def send_all(peer: Peer, payloads: list[bytes], enough: threading.Event) -> None:
    """Send one after the other, as a responder does that answers in turn, whenever there is credit."""
    sent = 0
    while not enough.is_set() and sent < len(payloads):
        flow = peer.until("flow", handle=0)
        allowed = flow.delivery_count + flow.link_credit
        for payload in payloads[sent:allowed]:
            peer.transfer(payload)
        sent = max(sent, min(allowed, len(payloads)))


def test_a_requester_that_takes_a_little_leaves_credit_for_others(place: Place) -> None:
    ask = asking(place)
    slow = connected(place.edge)
    boxes = [Inbox(slow, None, handle, credit=0, source=frames.source(dynamic=True)) for handle in range(4)]
    held = [ask(box.attach.source["address"]) for box in boxes]
    taker = f"q/taker-{next(_numbers)}"
    cookie, inbox = ask(taker), Inbox(place.edge, taker)
    responder = Outbox(place.core, "$replies.core")
    payloads = [answer(held[number % 4], b"x") for number in range(3000)] + [answer(cookie, b"for others")]
    enough = threading.Event()
    with ThreadPoolExecutor() as aside:
        taking = aside.submit(take_a_little, boxes, enough)
        sending = aside.submit(send_all, responder.peer, payloads, enough)
        try:
            transfer = inbox.peer.until("transfer")
        finally:
            enough.set()
        assert sections(transfer.payload)["data"] == b"for others"
        taking.result()
        sending.result()


def test_the_anonymous_terminus_leaves_credit_for_other_destinations(place: Place) -> None:
    names = [f"q/null-{next(_numbers)}" for _ in range(4)]
    taker = f"q/null-taker-{next(_numbers)}"
    inbox = Inbox(place.edge, taker)
    sender = Outbox(place.edge, None)
    payloads = [message(b"x", to=names[number % 4]) for number in range(1040)]
    sent = send_while_allowed(sender.peer, 0, payloads)
    credit_again(sender.peer, 0, sent)
    sender.peer.transfer(message(b"for others", to=taker), 0)
    assert sections(inbox.take())["data"] == b"for others"


def test_what_waits_is_released_when_its_cookie_expires(start_gateway: Gateways) -> None:
    place = start(start_gateway, "gw-stalled-short", expiry="3s", constants=OFTEN)
    ask, responder = asking(place), Outbox(place.core, "$replies.core")
    responder.credit()  # with all its time left when it is sent
    assert responder.send(answer(ask(f"q/late-{next(_numbers)}"))).matches("released")


def test_what_waits_is_released_when_its_requester_leaves(place: Place) -> None:
    address = f"q/leaves-{next(_numbers)}"
    cookie = asking(place)(address)
    inbox = Inbox(place.edge, address, credit=0)
    responder = Outbox(place.core, "$replies.core")
    responder.credit()
    delivery = responder.post(answer(cookie))
    inbox.peer.disconnect()
    assert responder.outcome(delivery).matches("released")


def test_a_requester_that_is_only_slow_gets_all_in_order(place: Place) -> None:
    address = f"q/slow-{next(_numbers)}"
    cookie = asking(place)(address)
    inbox = Inbox(place.edge, address, credit=0)
    responder = Outbox(place.core, "$replies.core")
    responder.credit()
    deliveries = [responder.post(answer(cookie, b"%d" % number)) for number in range(100)]
    inbox.peer.flow(0, link_credit=100, delivery_count=0)
    got = [sections(inbox.take())["data"] for _ in range(100)]
    assert got == [b"%d" % number for number in range(100)]
    assert all(responder.outcome(each).matches("accepted") for each in deliveries)

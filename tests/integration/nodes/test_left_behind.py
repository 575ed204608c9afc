"""What a sender leaves behind that came settled: nobody could send it again, so it waits on (C8)."""

from __future__ import annotations

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox, Place, start
from tests.support.gateway.gateway import Gateways

MAX_QUEUED = 250
"""How many messages may wait for one destination."""
WINDOW = 1000
"""The credit of an anonymous link."""


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-left")


@pytest.fixture
def outbox(place: Place) -> Outbox:
    """An anonymous link with its credit."""
    outbox = Outbox(place.edge, None)
    assert outbox.credit() == WINDOW
    return outbox


def leave(outbox: Outbox, how: str) -> None:
    """End a sender's link, and wait until that is known."""
    if how == "link":
        outbox.peer.detach(0).until("detach", closed=True)
    elif how == "session":
        outbox.peer.end().until("end")
    else:
        outbox.peer.close().until("close")


@pytest.mark.parametrize("how", ["link", "session", "connection"])
def test_what_waits_settled_is_delivered_though_its_sender_has_left(place: Place, outbox: Outbox, how: str) -> None:
    """Found as C8: nobody could send it again."""
    address = f"q/left-{how}"
    inbox = Inbox(place.edge, address, credit=0)
    for number in range(3):
        outbox.post(message(b"%d" % number, to=address), settled=number != 1)
    leave(outbox, how)
    inbox.peer.flow(0, link_credit=1, delivery_count=0)
    assert sections(inbox.take())["data"] == b"0"
    inbox.peer.flow(0, link_credit=10, delivery_count=1)
    assert sections(inbox.take())["data"] == b"2"
    assert inbox.empty()


def test_what_senders_leave_takes_no_more_than_sixteen_mebibytes(place: Place, outbox: Outbox) -> None:
    dropped = 'scopegate_dropped_total{rule="$anonymous",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    size, names = 40_000, ["q/large-0", "q/large-1"]
    inboxes = [Inbox(place.edge, name, credit=0) for name in names]
    for number in range(2 * MAX_QUEUED):
        outbox.post(message(bytes(size), to=names[number % 2]), settled=True)
    leave(outbox, "link")
    most = 2**24 // size
    gone = place.gateway.wait_metric(dropped, lambda value: value >= before + 2 * MAX_QUEUED - most) - before
    left = 2 * MAX_QUEUED - round(gone)
    assert 0.9 * most < left
    held = 'scopegate_held_bytes{kind="detached"}'
    place.gateway.wait_metric(held, lambda value: value >= left * size)  # it is on the account of the process
    for inbox in inboxes:
        inbox.peer.flow(0, link_credit=WINDOW, delivery_count=0)
    for inbox, count in zip(inboxes, (MAX_QUEUED, left - MAX_QUEUED), strict=True):
        for _ in range(count):
            inbox.take()
        assert inbox.empty()
    place.gateway.wait_metric(held, lambda value: value == 0)


def test_what_waits_settled_for_nobody_goes_with_its_sender(place: Place, outbox: Outbox) -> None:
    dropped = 'scopegate_dropped_total{rule="$anonymous",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    outbox.post(message(to="q/left-to-nobody"), settled=True)
    leave(outbox, "link")
    place.gateway.wait_metric(dropped, lambda value: value == before + 1)
    assert Inbox(place.edge, "q/left-to-nobody").empty()


def test_what_senders_leave_at_a_node_takes_no_more_than_that_either(place: Place) -> None:
    """Each of many senders may send one message beyond the credit of the only receiver."""
    dropped = 'scopegate_dropped_total{rule="q/**",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    inbox, size, senders = Inbox(place.edge, "q/crowd", credit=1), 60_000, 400
    outbox = Outbox(place.edge, "q/crowd")
    for handle in range(1, senders):
        outbox.peer.attach_sender("q/crowd", handle)
    for handle in range(senders):
        outbox.peer.transfer(message(bytes(size)), handle, settled=True)
    outbox.peer.close().until("close")
    inbox.take()
    most = 2**24 // size
    gone = place.gateway.wait_metric(dropped, lambda value: value >= before + senders - 1 - most) - before
    left = senders - 1 - round(gone)
    assert 0.9 * most < left
    held = 'scopegate_held_bytes{kind="detached"}'
    place.gateway.wait_metric(held, lambda value: value >= left * size)
    inbox.peer.flow(0, link_credit=WINDOW, delivery_count=1)
    for _ in range(left):
        inbox.take()
    assert inbox.empty()
    place.gateway.wait_metric(held, lambda value: value == 0)


def test_what_finds_no_receiver_any_more_is_counted_though_its_link_has_ended(place: Place, outbox: Outbox) -> None:
    dropped = 'scopegate_dropped_total{rule="$anonymous",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    inbox = Inbox(place.edge, "q/left-twice", credit=0)
    outbox.post(message(to="q/left-twice"), settled=True)
    leave(outbox, "link")
    inbox.peer.detach(0).until("detach", closed=True)
    place.gateway.wait_metric(dropped, lambda value: value == before + 1)

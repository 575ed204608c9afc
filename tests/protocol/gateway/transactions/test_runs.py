"""Messages of transactions that come in one read: the gateway takes runs of them, as if they came one by one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import source
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.together import together

MALFORMED = b"\x00\x53\x75\xa0\x7fshort"


def started(served: Served, address: str, **fields: Any) -> tuple[Controller, Outbox]:
    peer = served.peer()
    controller, outbox = Controller(peer), Outbox(peer, address, 1, **fields)
    outbox.credit()
    return controller, outbox


def taken(inbox: Inbox, count: int) -> list[bytes]:
    return [bytes(sections(inbox.take())["data"]) for _ in range(count)]


@pytest.mark.row("AT-2.2.2-11")
@pytest.mark.parametrize("address", ["events/orders", "chat/runs"])
def test_a_run_has_the_outcomes_of_its_messages(served: Served, address: str) -> None:
    """Usual ones, one of another transaction, one of none, a settled one, and one that is refused."""
    inbox = Inbox(served.peer(), address)
    controller, outbox = started(served, address)
    first, second = controller.declare(), controller.declare()
    with together(outbox.peer):
        kept = [outbox.post(message(b"a%d" % number), state=in_transaction(first)) for number in range(4)]
        odd = outbox.post(MALFORMED, state=in_transaction(first)) if address.startswith("events") else None
        undone = [outbox.post(message(b"b%d" % number), state=in_transaction(second)) for number in range(3)]
        kept += [outbox.post(message(b"a%d" % number), state=in_transaction(first)) for number in range(4, 6)]
        outbox.post(message(b"a6"), state=in_transaction(first), settled=True)
        plain = outbox.post(message(b"plain"))
        kept += [outbox.post(message(b"a%d" % number), state=in_transaction(first)) for number in range(7, 9)]
    for delivery in kept:
        assert outbox.outcome(delivery).matches({"txn_id": first, "outcome": "accepted"})
    for delivery in undone:
        assert outbox.outcome(delivery).matches({"txn_id": second, "outcome": "accepted"})
    if odd is not None:
        refused = outbox.outcome(odd)
        assert refused["txn_id"] == first
        assert refused["outcome"].name == "rejected"
    wanted = [b"a%d" % number for number in range(9)]
    if odd is not None:  # the embedded Kafka shows records before they are committed, and those that are not
        assert sorted(taken(inbox, 13)) == [*wanted, b"b0", b"b1", b"b2", b"plain"]
        assert outbox.outcome(plain).matches("accepted")
        assert controller.discharge(second).matches("accepted")
        assert controller.discharge(first).matches("accepted")
    else:
        assert taken(inbox, 1) == [b"plain"]
        assert outbox.outcome(plain).matches("accepted")
        assert controller.discharge(second, fail=True).matches("accepted")
        discharging = controller.discharging(first)
        assert taken(inbox, 9) == wanted
        assert controller.outcome(discharging).matches("accepted")
    assert inbox.empty()


def test_a_run_before_the_end_of_its_link_is_committed(served: Served) -> None:
    """Kafka's transaction has not begun yet when the link ends: its messages wait."""
    inbox = Inbox(served.peer(), "events/orders")
    controller, outbox = started(served, "events/orders")
    txn_id = controller.declare()
    with together(outbox.peer):
        for number in range(50):
            outbox.post(message(b"%d" % number), state=in_transaction(txn_id))
        outbox.peer.detach(1)
        discharging = controller.discharging(txn_id)
    assert controller.outcome(discharging).matches("accepted")
    assert taken(inbox, 50) == [b"%d" % number for number in range(50)]


def test_a_run_that_is_rolled_back_before_it_began(served: Served) -> None:
    controller, outbox = started(served, "events/orders")
    txn_id = controller.declare()
    with together(outbox.peer):
        lost = [outbox.post(message(b"%d" % number), state=in_transaction(txn_id)) for number in range(50)]
        discharging = controller.discharging(txn_id, fail=True)
    assert controller.outcome(discharging).matches("accepted")
    assert {controller.outcome(delivery)["outcome"].name for delivery in lost} <= {"accepted", "released"}
    again = controller.declare()
    with together(outbox.peer):
        kept = [outbox.post(message(b"on"), state=in_transaction(again)) for _ in range(3)]
    assert all(outbox.outcome(delivery).matches({"outcome": "accepted"}) for delivery in kept)
    assert controller.discharge(again).matches("accepted")


@pytest.mark.row("AT-2.2.2-12")
@pytest.mark.parametrize("size", [8, 300])
def test_a_run_of_an_unknown_transaction_is_rejected(served: Served, size: int) -> None:
    """Also if its id is longer than any of ours."""
    _, outbox = started(served, "events/orders")
    with together(outbox.peer):
        lost = [outbox.post(message(b"no"), state=in_transaction(b"x" * size)) for _ in range(3)]
    for delivery in lost:
        assert outbox.outcome(delivery)["error"]["condition"] == "amqp:transaction:unknown-id"


def test_a_refused_message_of_a_run_ends_a_link_without_rejected(served: Served) -> None:
    controller, outbox = started(served, "events/orders", source=source(outcomes=["amqp:accepted:list"]))
    txn_id = controller.declare()
    with together(outbox.peer):
        for data in (message(b"a"), message(b"b"), MALFORMED, message(b"c")):
            outbox.post(data, state=in_transaction(txn_id))
    outbox.peer.until("detach", handle=1)
    assert controller.discharge(txn_id)["error"]["condition"] == "amqp:transaction:rollback"


def test_states_that_are_no_transactions_change_nothing(served: Served) -> None:
    inbox = Inbox(served.peer(), "events/orders")
    _, outbox = started(served, "events/orders")
    with together(outbox.peer):
        sent = [outbox.post(message(b"%d" % number), state="accepted" if number % 2 else None) for number in range(6)]
    assert all(outbox.outcome(delivery).matches("accepted") for delivery in sent)
    assert taken(inbox, 6) == [b"%d" % number for number in range(6)]


def test_a_long_run_has_the_outcomes_of_its_messages(served: Served) -> None:
    """However many of them share a frame, which depends on how many Kafka has written meanwhile (`test_states.py`)."""
    controller, outbox = started(served, "events/orders")
    txn_id = controller.declare()
    with together(outbox.peer):
        sent = [outbox.post(message(b"%d" % number), state=in_transaction(txn_id)) for number in range(90)]
    found = set[int]()
    while len(found) < len(sent):
        frame = outbox.peer.until("disposition")
        assert frame.state.matches({"txn_id": txn_id, "outcome": "accepted"})
        found |= set(range(frame.first, (frame.first if frame.last is None else frame.last) + 1))
    assert found == set(sent)
    assert controller.discharge(txn_id).matches("accepted")

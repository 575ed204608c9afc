"""The policy's limits for transactions: their number, their time, and whether there are any."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction, request

TIMEOUT = "3s"
"""Less than a record may take to be written, and more than a busy machine stands still."""


class Place(NamedTuple):
    """A scope with narrow limits, and one without transactions."""

    narrow: int
    none: int

    def peer(self) -> Peer:
        peer = Peer(self.narrow)
        peer.start()
        return peer


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    document = Document()
    document.scope().update({"transaction_timeout": TIMEOUT, "max_transactions": 3, "connection_transactions": 2})
    document.kafka("embedded", topics={"orders": 1})
    none = document.add_scope("none")
    document.scope("none")["transactions"] = False
    start_module_gateway(document.text)
    return Place(document.edge, none)


# The fixtures of the protocol tests' common gateway are not needed here.
@pytest.fixture(autouse=True)
def touches_nobody_else() -> None:
    """This module has a gateway of its own."""


def declined(controller: Controller) -> str:
    """The description of the error with which a declare is rejected."""
    error = controller.send(request(frames.composite("declare")))["error"]
    assert error["condition"] == "amqp:resource-limit-exceeded"
    return str(error["description"])


def test_more_transactions_than_the_scope_allows_are_refused(place: Place) -> None:
    first, second = Controller(place.peer()), Controller(place.peer())
    ids = [first.declare() for _ in range(2)]
    last = second.declare()
    assert "(max_transactions)" in declined(second)
    assert first.discharge(ids[0]).matches("accepted")
    assert second.discharge(second.declare()).matches("accepted")
    assert first.discharge(ids[1]).matches("accepted")
    assert second.discharge(last).matches("accepted")


def test_one_connection_does_not_take_all_transactions_of_a_scope(place: Place) -> None:
    """All its controllers share the limit; what it has discharged, and what its end rolled back, counts no more."""
    greedy = place.peer()
    first, second = Controller(greedy), Controller(greedy, 1)
    txn_id, _ = first.declare(), second.declare()
    assert "(connection_transactions)" in declined(first)
    assert "(connection_transactions)" in declined(second)
    other = Controller(place.peer())
    assert other.discharge(other.declare()).matches("accepted")
    assert first.discharge(txn_id).matches("accepted")
    first.declare()
    greedy.disconnect()
    ids = [other.declare() for _ in range(2)]
    for txn_id in ids:
        assert other.discharge(txn_id).matches("accepted")


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction_that_takes_too_long_is_rolled_back(place: Place, fail: bool) -> None:
    """The time begins with the first work."""
    inbox = Inbox(place.peer(), "chat/late")
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, "chat/late", 1)
    outbox.credit()
    txn_id, idle = controller.declare(), controller.declare()
    def refused() -> Any:
        state = outbox.send(message(b"x"), state=in_transaction(txn_id))["outcome"]
        return None if state.matches("accepted") else state

    state = wait_until(refused, "the end of its time")  # now and then: a transaction has room for few messages
    assert state["error"]["condition"] == "amqp:transaction:timeout"
    outcome = controller.discharge(txn_id, fail=fail)
    assert outcome.matches("accepted") if fail else outcome["error"]["condition"] == "amqp:transaction:timeout"
    assert inbox.empty()
    assert controller.discharge(idle).matches("accepted")


@pytest.mark.row("CORE-9", part="acquisition")
@pytest.mark.parametrize("address", ["chat/acquired", "events/orders"])
def test_messages_that_were_acquired_are_given_back_when_the_time_is_over(place: Place, address: str) -> None:
    """The time begins with the flow; its link gets nothing more before the controller knows that it is over."""
    peer = place.peer()
    controller, inbox, outbox = Controller(peer), Acquirer(peer, address, 1, credit=0), Outbox(place.peer(), address)
    txn_id = controller.declare()
    inbox.ask(txn_id, 2)
    outbox.credit()
    first = outbox.post(message(b"1"))
    assert inbox.taken_back(inbox.acquired(txn_id))
    if address.startswith("chat"):
        assert outbox.outcome(first).matches("released")
        again = outbox.post(message(b"1"))
    outcome = controller.discharge(txn_id)
    assert outcome["error"]["condition"] == "amqp:transaction:timeout"
    inbox.retire(transfer := inbox.acquired(None), None)
    assert sections(transfer.payload)["data"] == b"1"
    if address.startswith("chat"):
        assert outbox.outcome(again).matches("accepted")


def test_a_transaction_may_be_shorter_than_a_record_may_take_to_be_written(place: Place) -> None:
    """librdkafka makes no client that waits longer for a record than for its transaction."""
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, "events/orders", 1)
    txn_id = controller.declare()
    assert outbox.send(message(b"x"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    assert controller.discharge(txn_id).matches("accepted")


def test_a_scope_may_have_no_coordinator(place: Place) -> None:
    peer = Peer(place.none)
    peer.start()
    peer.attach("controller", SENDER, target=frames.composite("coordinator"))
    peer.expect("attach", target=None)
    peer.expect("detach", closed=True, error="amqp:not-implemented")


def test_declare_and_discharge_are_sent_unsettled(place: Place) -> None:
    peer = place.peer()
    Controller(peer).post(request(frames.composite("declare")), settled=True)
    peer.until("detach", handle=0, error="amqp:illegal-state")


@pytest.mark.parametrize("body", [b"", b"\x00\x53\x77\x40", b"\x00\x53\x75\xa0\x00", b"\x00\x53\x77\x00\x53\x31\x45"])
def test_what_is_no_request_is_rejected(place: Place, body: bytes) -> None:
    """Nothing, null, data; an empty declare is one."""
    controller = Controller(place.peer())
    state = controller.send(body) if body else controller.send(message(b""))
    if body.endswith(b"\x45"):
        assert controller.discharge(bytes(state["txn_id"])).matches("accepted")
    else:
        assert state["error"]["condition"] == "amqp:decode-error"


def test_a_global_transaction_is_refused(place: Place) -> None:
    controller = Controller(place.peer())
    state = controller.send(request(frames.composite("declare", global_id=frames.composite("accepted"))))
    assert state["error"]["condition"] == "amqp:not-implemented"

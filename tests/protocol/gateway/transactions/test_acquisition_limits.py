"""How much one link acquires, and one transaction retires: the limits concern nobody else (AMQP 1.0 part 4, 4.4.3)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.warm import shortened
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction

pytestmark = pytest.mark.row("CORE-9", part="acquisition")
ACQUIRED, RETIRED = 5, 8
"""In place of 100,000 each."""


class Place(NamedTuple):
    """A gateway with small limits."""

    port: int

    def peer(self) -> Peer:
        peer = Peer(self.port)
        peer.start()
        return peer


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    document = Document()
    document.kafka("embedded", topics={"many": 1, "turns": 1})
    limits = {"acquisition.MAX_ACQUIRED": ACQUIRED, "transaction.MAX_RETIREMENTS": RETIRED}
    env = shortened({f"gateway.transactions.{name}": limit for name, limit in limits.items()})
    start_module_gateway(document.text, env=env)
    return Place(document.edge)


# The fixtures of the protocol tests' common gateway are not needed here.
@pytest.fixture(autouse=True)
def touches_nobody_else() -> None:
    """This module has a gateway of its own."""


def fed(place: Place, address: str, count: int) -> Outbox:
    """A sender of so many messages, whose receivers have given credit."""
    outbox = Outbox(place.peer(), address)
    outbox.credit()
    for number in range(count):
        outbox.post(message(b"%d" % number))
    return outbox


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("address", ["chat/many", "events/many"])
def test_a_link_waits_for_the_discharge_when_it_has_acquired_enough(
    place: Place, address: str, settled: bool
) -> None:
    """A drain is answered, another link gets what comes, and after the discharge the credit that is left is used."""
    peer = place.peer()
    controller = Controller(peer)
    inbox = Acquirer(peer, address, 1, credit=0, snd_settle_mode=1 if settled else 2)
    other = Acquirer(place.peer(), address, credit=0)
    txn_id = controller.declare()
    inbox.ask(txn_id, ACQUIRED + 3)
    fed(place, address, ACQUIRED)
    bodies = [b"%d" % number for number in range(ACQUIRED)]
    assert inbox.bodies(txn_id, ACQUIRED) == bodies
    other.peer.flow(0, link_credit=2 * ACQUIRED, delivery_count=0)
    if address.startswith("events"):  # a topic is read by everybody
        assert other.bodies(None, ACQUIRED) == bodies
    fed(place, address, 1)
    assert other.bodies(None, 1) == [b"0"]
    assert inbox.drained()
    inbox.peer.flow(1, link_credit=2, delivery_count=inbox.received)
    other.peer.detach(0)
    other.peer.until("detach")
    assert controller.discharge(txn_id).matches("accepted")
    if address.startswith("chat"):
        fed(place, address, 1)
    assert inbox.bodies(None, 1) == [b"0"]


def test_naming_transactions_in_turn_does_not_acquire_more(place: Place) -> None:
    """The limit is that of the link in the transaction, however often its flows name another one or none."""
    peer = place.peer()
    controller, inbox = Controller(peer), Acquirer(peer, "events/turns", 1, credit=0)
    first, second = controller.declare(), controller.declare()
    fed(place, "events/turns", 2 * ACQUIRED)
    inbox.ask(first, ACQUIRED - 1)
    inbox.bodies(first, ACQUIRED - 1)
    inbox.ask(second, 0)
    inbox.ask(None, 0)
    inbox.ask(first, 3)
    assert inbox.bodies(first, 1) == [b"%d" % (ACQUIRED - 1)]
    assert inbox.drained(first)
    inbox.ask(second, 1)
    assert inbox.bodies(second, 1) == [b"%d" % ACQUIRED]
    assert [controller.discharge(each).matches("accepted") for each in (first, second)] == [True, True]


def test_more_outcomes_than_one_transaction_may_have_fail_it_alone(place: Place) -> None:
    """Two links of a transaction together; another transaction at the same time is committed."""
    peer, neighbour = place.peer(), place.peer()
    controller, near = Controller(peer), Controller(neighbour)
    txn_id, other = controller.declare(), near.declare()
    beside = Acquirer(neighbour, "chat/beside", 1, credit=0)
    beside.ask(other, 1)
    kept = fed(place, "chat/beside", 1)
    beside.retire(beside.acquired(other), other)
    boxes = [Acquirer(peer, f"chat/part-{number}", 1 + number, credit=0) for number in range(2)]
    for number, inbox in enumerate(boxes):
        inbox.ask(txn_id, ACQUIRED)
        outbox = fed(place, f"chat/part-{number}", ACQUIRED)
        for _ in range(ACQUIRED):
            inbox.retire(inbox.acquired(txn_id), txn_id)
    error = controller.discharge(txn_id)["error"]
    assert error["condition"] == "amqp:transaction:rollback"
    assert f"amqp:resource-limit-exceeded: a transaction may retire at most {RETIRED} messages" in error["description"]
    assert {outbox.outcome(delivery).name for delivery in range(ACQUIRED)} == {"released"}
    assert near.discharge(other).matches("accepted")
    assert kept.outcome(0).matches("accepted")
    again = controller.declare()
    post = Outbox(peer, "chat/part-0", 3)
    Inbox(place.peer(), "chat/part-0")
    post.credit()
    post.outcomes = controller.outcomes
    assert post.send(message(b"x"), state=in_transaction(again)).matches({"outcome": "accepted"})

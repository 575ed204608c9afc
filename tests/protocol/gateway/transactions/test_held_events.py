"""Events that a transaction may send again after a rollback are on the account of its connection until it ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.support.amqp.frames import source
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction

SIZE, COUNT, LIMIT = 50_000, 10, 5 * 2**18
"""The embedded Kafka retains 5 MB of a partition."""
OVERHEAD = 1024
"""Bytes for which an event counts beside its data."""
KEPT = 'scopegate_held_bytes{kind="kept"}'


class Place(NamedTuple):
    """A gateway whose connections may hold little."""

    port: int
    gateway: Gateway
    narrow: int
    """A listener whose connections may hold next to nothing."""

    def peer(self, **fields: Any) -> Peer:
        peer = Peer(self.port)
        peer.start(**fields)
        return peer

    def kept(self, least: int) -> None:
        """Wait until at least so much is kept, or nearly nothing."""
        self.gateway.wait_metric(KEPT, (lambda kept: kept >= least) if least else (lambda kept: kept < SIZE))


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    document = Document(log="json")
    document.kafka("embedded", topics={f"large-{number}": 1 for number in range(10)})
    document.scope()["listen"][0]["limits"] = {"memory": f"{LIMIT}B"}
    narrow = document.add_listener(limits={"memory": "128KiB"})
    return Place(document.edge, start_module_gateway(document.text), narrow)


# The fixtures of the protocol tests' common gateway are not needed here.
@pytest.fixture(autouse=True)
def touches_nobody_else() -> None:
    """This module has a gateway of its own."""


class Story:
    """A controller with a link of large events."""

    def __init__(self, place: Place, topic: str, kind: str) -> None:
        self.place, self.address = place, f"events/{topic}"
        self.peer = place.peer(container_id=topic)
        self.controller = Controller(self.peer)
        durable: dict[str, Any] = {"durable": 1, "expiry_policy": "never"} if kind == "durable" else {}
        self.peer.attach("large", RECEIVER, 1, source=source(self.address, **durable))
        self.peer.until("attach", name="large")
        self.inbox = Acquirer.adopt(self.peer, 1)
        self.txn_id = self.controller.declare()

    def feed(self, count: int) -> None:
        outbox = Outbox(self.place.peer(), self.address)
        outbox.credit()
        for number in range(count):
            assert outbox.send(message(b"%d " % number + bytes(SIZE))).matches("accepted")

    def retire(self, count: int) -> list[int]:
        """Settle the next events in the transaction; return their numbers."""
        found = []
        for _ in range(count):
            transfer = self.inbox.transfer()
            found.append(int(bytes(sections(transfer.payload)["data"]).partition(b" ")[0]))
            self.inbox.retire(transfer, self.txn_id)
        return found


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("kind", ["plain", "durable"])
def test_events_that_are_settled_in_a_transaction(place: Place, kind: str, fail: bool) -> None:
    story = Story(place, f"large-{2 * (kind == 'plain') + fail}", kind)
    story.peer.flow(1, link_credit=COUNT)
    story.feed(COUNT)
    numbers = story.retire(COUNT)
    place.kept(COUNT * SIZE)
    assert story.controller.discharge(story.txn_id, fail=fail).matches("accepted")
    if fail:
        place.kept(COUNT * SIZE)  # they wait for credit
        story.peer.flow(1, link_credit=COUNT, delivery_count=COUNT)
        story.txn_id = story.controller.declare()
        assert story.retire(COUNT) == numbers
        assert story.controller.discharge(story.txn_id).matches("accepted")
    place.kept(0)


def test_events_that_were_acquired_on_a_link_that_has_ended(place: Place) -> None:
    story = Story(place, "large-4", "plain")
    story.inbox.ask(story.txn_id, COUNT // 2)
    story.feed(COUNT // 2)
    for _ in range(COUNT // 2):
        story.inbox.acquired(story.txn_id)
    story.peer.detach(1)
    story.peer.until("detach")
    place.kept(COUNT // 2 * SIZE)
    assert story.controller.discharge(story.txn_id).matches("accepted")
    place.kept(0)


def test_nothing_more_is_sent_when_it_is_too_much(place: Place) -> None:
    """Until the discharge, or the end of the transaction's time; a link of another connection gets everything."""
    many = 3 * LIMIT // SIZE
    story, other = Story(place, "large-5", "plain"), Acquirer(place.peer(), "events/large-5", credit=0)
    story.peer.flow(1, link_credit=many)
    other.peer.flow(0, link_credit=many)
    story.feed(many)
    numbers: list[int] = []
    while len(numbers) * (SIZE + OVERHEAD) < LIMIT // 2:  # one more may never come
        numbers += story.retire(1)
    place.kept(LIMIT // 2)
    for _ in range(many):
        other.retire(other.transfer(), None)
    assert story.controller.discharge(story.controller.declare()).matches("accepted"), "what came before is read"
    came = sum(line.startswith("<- transfer") for line in story.peer.transcript)
    assert came < many // 2
    numbers += story.retire(came - len(numbers))
    assert story.controller.discharge(story.txn_id).matches("accepted")
    story.txn_id = story.controller.declare()
    while len(numbers) < many:
        numbers += story.retire(1)
        if len(numbers) % COUNT == 0:
            assert story.controller.discharge(story.txn_id).matches("accepted")
            story.txn_id = story.controller.declare()
    assert numbers == list(range(many))
    assert story.controller.discharge(story.txn_id).matches("accepted")
    place.kept(0)


def test_a_connection_that_ends_leaves_nothing(place: Place) -> None:
    story = Story(place, "large-6", "durable")
    story.peer.flow(1, link_credit=COUNT)
    story.feed(COUNT)
    story.retire(COUNT)
    place.kept(COUNT * SIZE)
    story.peer.disconnect()
    place.kept(0)


@pytest.mark.parametrize("fail", [True, False])
def test_a_connection_with_too_much_in_a_transaction_can_discharge_it(place: Place, fail: bool) -> None:
    """The message that is one too many says that it should; without that message the others are not committed."""
    inbox = Inbox(place.port, f"chat/full-{fail}")
    peer = Peer(place.narrow)
    peer.start()
    controller, outbox = Controller(peer), Outbox(peer, inbox.attach.source["address"], 1)
    outbox.outcomes = controller.outcomes
    outbox.credit()
    txn_id = controller.declare()
    while (outcome := outbox.send(message(bytes(30_000)), state=in_transaction(txn_id))["outcome"]).matches("accepted"):
        pass
    assert outcome["error"]["condition"] == "amqp:resource-limit-exceeded"
    assert "discharge its transactions" in outcome["error"]["description"]
    assert controller.discharge(txn_id, fail=fail).matches("accepted" if fail else "rejected")
    assert inbox.empty()
    txn_id = controller.declare()
    assert outbox.send(message(b"x"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    assert controller.discharge(txn_id, fail=True).matches("accepted")

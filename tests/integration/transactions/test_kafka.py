"""Transactions on topics of a real Kafka: readers of committed records see all of one or nothing (KM-14)."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.kafka import KafkaBroker
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.together import together
from tests.support.transactions.topics import committed, consuming


class Place(NamedTuple):
    """A gateway before the shared broker."""

    port: int
    broker: KafkaBroker
    gateway: Gateway

    def peer(self, name: str | None = None) -> Peer:
        peer = Peer(self.port)
        peer.start(**({} if name is None else {"container_id": name}))
        return peer

    def committed(self, topic: str, isolation: str = "read_committed") -> list[bytes]:
        """The payloads in a topic of one partition, for a reader of this isolation."""
        return committed(self.broker.bootstrap, topic, isolation)


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> Place:
    # Workers share the broker, and gateways of one name would take each other's producers: posts are then released.
    document = Document(id=f"gw-transactions-{os.getpid()}", log="json")
    document.kafka(kafka_broker.bootstrap, transactional_producers=2)
    return Place(document.edge, kafka_broker, start_module_gateway(document.text))


@pytest.mark.row("AT-2.2.2-11")
def test_readers_see_committed_records_only(place: Place) -> None:
    topic = place.broker.create_topic()
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
    inbox = Inbox(place.peer(), f"events/{topic}")
    for number, fail in enumerate((True, False, True, False)):
        txn_id = controller.declare()
        for part in range(3):
            state = outbox.send(message(b"%d.%d" % (number, part)), state=in_transaction(txn_id))
            assert state.matches({"outcome": "accepted"})
        assert controller.discharge(txn_id, fail=fail).matches("accepted")
    wanted = [b"1.0", b"1.1", b"1.2", b"3.0", b"3.1", b"3.2"]
    assert [sections(inbox.take())["data"] for _ in wanted] == wanted
    assert place.committed(topic) == wanted
    assert len(place.committed(topic, "read_uncommitted")) == 12


def test_a_rollback_takes_the_reports_of_records_under_way(place: Place) -> None:
    """The call that ends a transaction takes them itself; the gateway died of that."""
    topic = place.broker.create_topic()
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
    for _ in range(5):
        txn_id = controller.declare()
        for number in range(50):
            outbox.post(message(b"undone %d" % number), state=in_transaction(txn_id))
        assert controller.discharge(txn_id, fail=True).matches("accepted")
    last = controller.declare()
    assert outbox.send(message(b"done"), state=in_transaction(last)).matches({"outcome": "accepted"})
    assert controller.discharge(last).matches("accepted")
    assert place.committed(topic) == [b"done"]


@pytest.mark.parametrize("loss", ["detach", "end", "close", "disconnect"])
def test_the_end_of_the_controller_rolls_back(place: Place, loss: str) -> None:
    topic = place.broker.create_topic()
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
    outbox.send(message(b"lost"), state=in_transaction(controller.declare()))
    if loss == "detach":
        peer.detach(0)
        peer.until("detach")
    else:
        getattr(peer, loss)()
    with place.peer() as after:
        outbox = Outbox(after, f"events/{topic}")
        assert outbox.send(message(b"after")).matches("accepted")
    assert place.committed(topic) == [b"after"]


def test_more_transactions_than_producers_are_refused_at_their_first_message(place: Place) -> None:
    """And their commits, as JMS sends without waiting for outcomes."""
    topic = place.broker.create_topic()
    peer = place.peer()
    controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
    ids = [controller.declare() for _ in range(3)]
    states = [outbox.send(message(b"%d" % at), state=in_transaction(txn_id)) for at, txn_id in enumerate(ids)]
    assert [state["outcome"].name for state in states] == ["accepted", "accepted", "rejected"]
    assert states[2]["outcome"]["error"]["condition"] == "amqp:resource-limit-exceeded"
    assert controller.discharge(ids[0]).matches("accepted")
    assert controller.discharge(ids[2])["error"]["condition"] == "amqp:transaction:rollback"
    ids[2] = controller.declare()
    assert outbox.send(message(b"again"), state=in_transaction(ids[2])).matches({"outcome": "accepted"})
    for txn_id in ids[1:]:
        assert controller.discharge(txn_id).matches("accepted")
    assert place.committed(topic) == [b"0", b"1", b"again"]


@pytest.mark.row("CORE-9", part="acquisition")
@pytest.mark.parametrize("group", [True, False])
def test_what_is_acquired_is_committed_with_what_is_made_of_it(place: Place, group: bool) -> None:
    """As below, with inputs that are acquired in the transaction: after a rollback the next one gets them."""
    inputs, outputs = place.broker.create_topic(), place.broker.create_topic()
    name = f"acquirer-{group}"
    peer = place.peer(name)
    controller, outbox = Controller(peer), Outbox(peer, f"events/{outputs}", 1)
    inbox = Acquirer.adopt(peer, consuming(peer, inputs, 2, group=group, credit=0).handle)
    feed = Outbox(place.peer(), f"events/{inputs}")
    for number in range(3):
        assert feed.send(message(b"%d" % number)).matches("accepted")
    for fail in (True, False):
        txn_id = controller.declare()
        inbox.ask(txn_id, 2)
        for transfer in [inbox.acquired(txn_id) for _ in range(2)]:
            outbox.send(message(b"made of " + sections(transfer.payload)["data"]), state=in_transaction(txn_id))
            inbox.retire(transfer, txn_id)
        assert controller.discharge(txn_id, fail=fail).matches("accepted")
    assert place.committed(outputs) == [b"made of 0", b"made of 1"]
    peer.disconnect()
    resumed = consuming(place.peer(name), inputs, 0, group=group)
    assert sections(resumed.take())["data"] == b"2"


@pytest.mark.parametrize("group", [True, False])
def test_what_is_consumed_is_committed_with_what_is_made_of_it(place: Place, group: bool) -> None:
    """Consume, transform, produce: after a rollback the input comes again, after a commit it does not."""
    inputs, outputs = place.broker.create_topic(), place.broker.create_topic()
    name = f"worker-{group}"
    peer = place.peer(name)
    controller, outbox = Controller(peer), Outbox(peer, f"events/{outputs}", 1)
    inbox = consuming(peer, inputs, 2, group=group)
    feed = Outbox(place.peer(), f"events/{inputs}")
    for number in range(4):
        assert feed.send(message(b"%d" % number)).matches("accepted")
    transfers = [inbox.transfer() for _ in range(4)]
    first = controller.declare()
    for transfer in transfers[:2]:
        outbox.send(message(b"lost"), state=in_transaction(first))
        peer.disposition(transfer.delivery_id, in_transaction(first, "accepted"))
    discharging = controller.discharging(first, fail=True)
    again = [inbox.transfer() for _ in range(2)]
    assert controller.outcome(discharging).matches("accepted")
    second = controller.declare()
    for transfer in again:
        outbox.send(message(b"made of " + sections(transfer.payload)["data"]), state=in_transaction(second))
        peer.disposition(transfer.delivery_id, in_transaction(second, "accepted"))
    assert controller.discharge(second).matches("accepted")
    assert place.committed(outputs) == [b"made of 0", b"made of 1"]
    peer.detach(2, closed=False)
    peer.until("detach")
    peer.disconnect()
    resumed = consuming(place.peer(name), inputs, 0, group=group)
    assert sections(resumed.take())["data"] == b"2"


@pytest.mark.row("AT-2.2.2-11", part="destinations that are not open")
def test_a_pipelined_transaction_over_the_null_target_is_committed_as_one(place: Place) -> None:
    """Consume, transform, produce, as JMS does: no topic that is written is open when the commit comes.

    A message to a topic that does not exist makes the first attempt fail: then the inputs come again.
    """
    inputs, outputs = place.broker.create_topic(), [place.broker.create_topic() for _ in range(2)]
    peer = place.peer("pipelined")
    controller, outbox = Controller(peer), Outbox(peer, None, 1)
    outbox.credit()
    inbox = consuming(peer, inputs, 2, group=False)
    outbox.outcomes = controller.outcomes
    feed = Outbox(place.peer(), f"events/{inputs}")
    for number in range(4):
        assert feed.send(message(b"%d" % number)).matches("accepted")
    inbox.transfer()
    inbox.transfer()
    for fails in (True, False):
        first = inbox.received - 2
        txn_id = controller.declare()
        with together(peer):
            for number in range(2):
                to = f"events/{outputs[number]}"
                outbox.post(message(b"of %d" % number, to=to), state=in_transaction(txn_id), settled=True)
                peer.disposition(first + number, in_transaction(txn_id, "accepted"))
            if fails:
                outbox.post(message(b"no", to="events/missing"), state=in_transaction(txn_id), settled=True)
            discharging = controller.discharging(txn_id)
        state = controller.outcome(discharging)
        if fails:
            assert state["error"]["condition"] == "amqp:transaction:rollback"
            assert sorted(bytes(sections(inbox.transfer().payload)["data"]) for _ in range(4)) == [
                b"0", b"1", b"2", b"3",
            ]  # fmt: skip
        else:
            assert state.matches("accepted")
    assert [place.committed(topic) for topic in outputs] == [[b"of 0"], [b"of 1"]]

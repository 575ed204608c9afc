"""What is acquired in a transaction, end to end: its outcomes are held until the discharge (4.4.3, KM-14)."""

from __future__ import annotations

import itertools
import os
from typing import Any, NamedTuple

import pytest

from tests.support.amqp.frames import Frame, source
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.sessions import LASTING, kill_for_good
from tests.support.transactions.topics import GROUP, committed

pytestmark = pytest.mark.row("CORE-9", part="acquisition end to end")
KINDS = ("direct", "plain", "durable", "group")
STORED = ("durable", "group")
HERE = {"channel": 1, "next_outgoing_id": 0}
"""The session of the receiver; its controller has another one."""
_numbers = itertools.count()


class Place(NamedTuple):
    """A gateway before the shared broker."""

    port: int
    broker: KafkaBroker
    gateway: Gateway

    def peer(self, **fields: Any) -> Peer:
        peer = Peer(self.port)
        peer.start(**fields)
        return peer


def started(start: Gateways, broker: KafkaBroker, **gateway: Any) -> Place:
    document = Document(id=f"gw-acquired-{os.getpid()}", log="json", **gateway)
    document.kafka(broker.bootstrap)
    return Place(document.edge, broker, start(document.text, env=shortened(PATIENT)))


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> Place:
    return started(start_module_gateway, kafka_broker)


class Story:
    """A controller, whose receiver has a session of its own, and who sends to it."""

    def __init__(self, place: Place, kind: str) -> None:
        number = next(_numbers)
        self.place, self.kind, self.name = place, kind, f"acquirer-{number}"
        self.topic = "" if kind == "direct" else place.broker.create_topic()
        self.address = f"chat/{number}" if kind == "direct" else f"events/{self.topic}"
        self.peer = place.peer(container_id=self.name)
        self.controller = Controller(self.peer)
        self.peer.begin(1).until("begin", remote_channel=1)
        self.inbox = self.receiver(self.peer, 1)
        self.txn_id = self.controller.declare()

    def receiver(self, peer: Peer, channel: int) -> Acquirer:
        """The link, which has the same name at every connection."""
        durable: dict[str, Any] = {"durable": 1, "expiry_policy": "never"} if self.kind == "durable" else {}
        properties = {GROUP: self.name} if self.kind == "group" else None
        where = {"source": source(self.address, **durable), "properties": properties, "channel": channel}
        peer.attach("acquirer", RECEIVER, 0, **where)
        assert peer.until("attach", name="acquirer").source is not None, "refused: another link has it"
        return Acquirer.adopt(peer)

    def acquire(self, *bodies: bytes) -> tuple[Outbox, list[int], list[Frame]]:
        """Send to the link; return the sender, its deliveries, and what the link got."""
        self.inbox.ask(self.txn_id, len(bodies), **HERE)
        outbox = Outbox(self.place.peer(), self.address)
        outbox.credit()
        sent = [outbox.post(message(each)) for each in bodies]
        got = [self.inbox.acquired(self.txn_id) for _ in bodies]
        assert [sections(each.payload)["data"] for each in got] == list(bodies)
        return outbox, sent, got

    def retire(self, transfer: Frame, *, settled: bool = True) -> None:
        self.peer.disposition(
            transfer.delivery_id, in_transaction(self.txn_id, "accepted"), settled=settled, channel=1
        )

    def end(self, what: str) -> None:
        """End the link of the receiver, or its session."""
        if what == "link":
            self.peer.detach(0, channel=1, closed=False)
            self.peer.until("detach")
        else:
            self.peer.end(1)
            self.peer.until("end")

    def resumed(self, count: int) -> list[bytes]:
        """What another link of this name gets first, when the connection is over."""
        self.peer.disconnect()
        inbox = wait_until(self._again, "the position to be free")
        assert inbox is not None
        return [bytes(sections(inbox.take())["data"]) for _ in range(count)]

    def _again(self) -> Acquirer | None:
        try:
            inbox = self.receiver(self.place.peer(container_id=self.name), 0)
        except (AssertionError, OSError):  # the link before it still has the lease
            return None
        inbox.peer.flow(0, link_credit=100)
        return inbox


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_are_held_until_the_discharge(place: Place, kind: str, fail: bool) -> None:
    """Of three messages one is settled, one has an outcome, one has none; nobody learns anything before."""
    story = Story(place, kind)
    outbox, sent, got = story.acquire(b"0", b"1", b"2")
    story.retire(got[0])
    story.retire(got[1], settled=False)
    assert story.controller.discharge(story.controller.declare()).matches("accepted"), "all that came before was read"
    assert not [line for line in story.peer.transcript if line.startswith("<- disposition") and "role=False" in line]
    assert not outbox.outcomes or kind != "direct"
    delivery = story.controller.discharging(story.txn_id, fail=fail)
    if fail:
        assert story.inbox.taken_back(*got[1:])
    else:
        told = story.peer.pick("disposition", role=SENDER)
        assert (told.first, told.state.name, told.settled) == (got[1].delivery_id, "accepted", True)
    assert story.controller.outcome(delivery).matches("accepted")
    if kind == "direct":
        if not fail:
            story.peer.disposition(got[2].delivery_id, "released", channel=1)
        wanted = ["released"] * 3 if fail else ["accepted", "accepted", "released"]
        assert [outbox.outcome(each).name for each in sent] == wanted
    elif kind in STORED:
        assert story.resumed(3 if fail else 1) == ([b"0", b"1", b"2"] if fail else [b"2"])


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("end", ["link", "session"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_receiver_ends_before_the_discharge(place: Place, kind: str, end: str, fail: bool) -> None:
    """Its session does not matter to the transaction. A stored position cannot be committed without its link."""
    story = Story(place, kind)
    outbox, sent, got = story.acquire(b"0", b"1")
    story.retire(got[0])
    story.end(end)
    outcome = story.controller.discharge(story.txn_id, fail=fail)
    if kind in STORED and not fail:
        assert outcome["error"]["condition"] == "amqp:transaction:rollback"
        assert "a link of the transaction has ended" in outcome["error"]["description"]
    else:
        assert outcome.matches("accepted")
    if kind == "direct":
        wanted: list[Any] = ["released"] * 2 if fail else ["accepted", {"delivery_failed": True}]
        assert all(outbox.outcome(each).matches(state) for each, state in zip(sent, wanted, strict=True))
    elif kind in STORED:
        assert story.resumed(2) == [b"0", b"1"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_that_ends_with_nothing_retired_is_no_obstacle(place: Place, kind: str) -> None:
    """What it has acquired comes again as at the end of any link, and the rest of the transaction is committed."""
    story = Story(place, kind)
    made = place.broker.create_topic()
    target = "chat/made" if kind == "direct" else f"events/{made}"
    results = Inbox(place.peer(), target)
    outputs = Outbox(story.peer, target, 1)
    outputs.outcomes = story.controller.outcomes
    outputs.credit()
    outbox, sent, _ = story.acquire(b"0", b"1")
    assert outputs.send(message(b"made"), state=in_transaction(story.txn_id)).matches({"outcome": "accepted"})
    story.end("session")
    discharge = story.controller.discharging(story.txn_id)
    assert sections(results.take())["data"] == b"made"
    assert story.controller.outcome(discharge).matches("accepted")
    if kind == "direct":
        assert all(outbox.outcome(each).matches({"delivery_failed": True}) for each in sent)
    elif kind in STORED:
        assert story.resumed(2) == [b"0", b"1"]


@pytest.mark.parametrize("loss", ["detach", "end"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_controller_ends_and_the_receiver_goes_on(place: Place, kind: str, loss: str) -> None:
    """What was acquired is taken back on the link, and comes again there with its credit."""
    story = Story(place, kind)
    outbox, sent, got = story.acquire(b"0", b"1")
    story.retire(got[0])
    if loss == "detach":
        story.peer.detach(0)
    else:
        story.peer.end(0)
    assert story.inbox.taken_back(got[1])
    story.inbox.peer.flow(0, link_credit=2, delivery_count=2, **HERE)
    if kind == "direct":
        assert {outbox.outcome(each).name for each in sent} == {"released"}
        outbox.credit()
        for body in (b"0", b"1"):
            outbox.post(message(body))
    assert story.inbox.bodies(None, 2) == [b"0", b"1"]


@pytest.mark.parametrize("kind", STORED)
def test_nothing_of_a_transaction_is_left_of_a_killed_gateway(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str
) -> None:
    """Neither what was made nor the position: acquired and retired events come again."""
    place = started(start_gateway, kafka_broker, state=redis_server.url, lease=LASTING)
    story, made = Story(place, kind), kafka_broker.create_topic()
    outputs = Outbox(story.peer, f"events/{made}", 1)
    outputs.outcomes = story.controller.outcomes
    outputs.credit()
    _, _, got = story.acquire(b"0", b"1")
    for transfer in got:
        story.retire(transfer)
        outputs.send(message(b"made"), state=in_transaction(story.txn_id))
    kill_for_good(place.gateway, redis_server)
    place.gateway.restart()
    assert story.resumed(2) == [b"0", b"1"]
    with place.peer() as peer:
        controller = Controller(peer)
        last = Outbox(peer, f"events/{made}", 1)
        last.outcomes = controller.outcomes
        last.credit()
        txn_id = controller.declare()
        assert last.send(message(b"last"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
        assert controller.discharge(txn_id).matches("accepted")
    assert committed(kafka_broker.bootstrap, made) == [b"last"]

"""A consumer whose link has a stored position, and which settles events in several transactions."""

from __future__ import annotations

import itertools
import os

from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.sessions import LASTING, kill_for_good
from tests.support.transactions.topics import committed, consuming

_names = itertools.count()


class StoredConsumer:
    """A link with a stored position, a controller beside it, and a topic for what is made of its events."""

    def __init__(
        self, start: Gateways, broker: KafkaBroker, redis: Redis, kind: str, *, credit: int = 100, **rule: object
    ) -> None:
        self._credit = credit
        self.redis = redis
        self.document = Document(id=f"gw-{os.getpid()}-{next(_names)}", log="json", state=redis.url, lease=LASTING)
        self.document.kafka(broker.bootstrap)
        self.document.scope()["addresses"][-1].update(rule)
        self.broker, self.group = broker, kind == "group"
        self.topic, self.outputs = broker.create_topic(), broker.create_topic()
        self.gateway = start(self.document.text, env=shortened(PATIENT))
        self.attach()  # a group begins at the end of the topic

    def attach(self) -> None:
        """Attach the link at a new connection."""
        attached = wait_until(self._attached, "the position to be free")
        assert attached is not None
        self.inbox, self.peer = attached, attached.peer
        self.controller, self.outbox = Controller(self.peer, 1), Outbox(self.peer, f"events/{self.outputs}", 2)
        self.outbox.credit()
        self.outbox.outcomes = self.controller.outcomes
        if self._credit:
            self.peer.flow(0, link_credit=self._credit, delivery_count=0)

    def _attached(self) -> Inbox | None:
        peer = Peer(self.document.edge)
        try:
            peer.start(container_id="worker")
            return consuming(peer, self.topic, 0, group=self.group, credit=0)
        except (AssertionError, OSError):  # the link before it still has the lease
            peer.disconnect()
            return None

    def feed(self, *numbers: int) -> list[Frame]:
        """Write events, and receive them."""
        self.write(*numbers)
        return [self.inbox.transfer() for _ in numbers]

    def write(self, *numbers: int) -> None:
        with self.broker.writing() as write:
            for number in numbers:
                write(self.topic, b"%d" % number)

    def settle(self, txn_id: bytes, *events: Frame, outcome: str = "accepted", settled: bool = True) -> None:
        """Make something of events in a transaction, and give them an outcome in it."""
        for event in events:
            made = message(b"of " + bytes(sections(event.payload)["data"]))
            assert self.outbox.send(made, state=in_transaction(txn_id)).matches({"outcome": "accepted"})
            self.peer.disposition(event.delivery_id, in_transaction(txn_id, outcome), settled=settled)

    def settled(self, *events: Frame, settled: bool = True) -> bytes:
        """`settle` in a new transaction, whose id it returns."""
        txn_id = self.controller.declare()
        self.settle(txn_id, *events, settled=settled)
        return txn_id

    def commit(self, *txn_ids: bytes) -> None:
        """Discharge transactions one after the other without waiting for the answers, and wait then."""
        discharges = [self.controller.discharging(each) for each in txn_ids]
        for each in discharges:
            assert self.controller.outcome(each).matches("accepted")

    def end(self, how: str) -> None:
        """End the link in order, or kill the gateway."""
        if how == "kill":
            kill_for_good(self.gateway, self.redis)
            self.gateway.restart()
            return
        self.peer.detach(0, closed=False)
        self.peer.until("detach", keep="transfer", handle=0)
        self.peer.disconnect()

    def attach_link_again(self) -> None:
        """Detach the link, and attach it again on the same connection."""
        self.peer.detach(0, closed=False)
        self.peer.until("detach", keep="disposition", handle=0)
        self.inbox = consuming(self.peer, self.topic, 0, group=self.group, credit=self._credit)

    def resumed(self, how: str, *wanted: int) -> list[Frame]:
        """End the link, and attach it again: these events come, and nothing between them."""
        self.end(how)
        self.attach()
        events = [self.inbox.transfer() for _ in wanted]
        assert [int(sections(each.payload)["data"]) for each in events] == list(wanted)
        return events

    @property
    def made(self) -> list[bytes]:
        """What readers of committed records see."""
        return committed(self.broker.bootstrap, self.outputs)

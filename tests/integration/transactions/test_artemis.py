"""Transactions of clients at a real Artemis, by its own coordinator, through a connector (KM-14, decision 83)."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.amqp.proton_clients import Login, receive
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import wait_until
from tests.support.plugins.fixtures import served
from tests.support.plugins.seed import SEED
from tests.support.servers.servers import Artemis
from tests.support.transactions.clients import done, transacting
from tests.support.transactions.controller import Controller, in_transaction


def place(gateways: Gateways, artemis: Artemis, **connector: object) -> tuple[Document, Gateway]:
    """Start a gateway whose addresses `far/…` are at the broker."""
    document = Document(id="gw-artemis")
    sasl = {"mechanism": "plain", "user": artemis.user, "password": {"env": "ARTEMIS"}}
    document.connector(artemis.port, "far", sasl=sasl, allow_plain_without_tls=True, **connector)
    rule = {"match": "far/{name}", "relay": "far", "address": "{name}", "replies": "none"}
    document.scope()["addresses"].append(rule)
    return document, gateways(document.text, env={"ARTEMIS": artemis.password})


@pytest.mark.row("AT-2.2.2-11", part="Artemis")
@pytest.mark.parametrize("library", ["jms", "protonj2"])
def test_clients_work_in_transactions_at_the_broker(start_gateway: Gateways, artemis: Artemis, library: str) -> None:
    """Messages that are sent, received, and made of others; rollbacks bring those that were received again."""
    (document, _), name = place(start_gateway, artemis), uuid4().hex
    done(transacting(library, document.edge, f"far/in-{name}", f"far/out-{name}"))
    made = receive(Login(artemis.port, artemis.user, artemis.password), f"out-{name}", 3).finish()
    assert [each.message.body for each in made] == [f"out of in {number}" for number in range(3)]


@pytest.mark.parametrize("relay", [False, True], ids=["link", "anonymous relay"])
def test_nothing_is_there_before_the_commit(start_gateway: Gateways, artemis: Artemis, relay: bool) -> None:
    """Nor after the client is gone without one."""
    (document, _), queue = place(start_gateway, artemis, use_relay=relay), f"q-{uuid4().hex}"
    with Peer(artemis.port) as far:
        far.sasl_plain(artemis.user, artemis.password).negotiate()
        inbox = Inbox(far, queue)
        for ends in ("lost", "fail", "commit"):
            with Peer(document.edge) as peer:
                peer.start()
                controller, outbox = Controller(peer), Outbox(peer, f"far/{queue}", 1)
                txn_id = controller.declare()
                for number in range(3):
                    body = message(f"{ends} {number}".encode(), to=queue)
                    outcome = outbox.send(body, state=in_transaction(txn_id))
                    assert (outcome["txn_id"], outcome["outcome"].name) == (txn_id, "accepted")
                assert inbox.empty()
                if ends != "lost":
                    assert controller.discharge(txn_id, fail=ends == "fail").matches("accepted")
        assert [sections(inbox.take())["data"] for _ in range(3)] == [b"commit %d" % number for number in range(3)]
        assert inbox.empty()


DURABLE: Final = [True]
"""The header of messages that outlive their broker."""


class Round:
    """A client that has consumed one message and posted two in a transaction at a broker that is about to die."""

    def __init__(self, artemis: Artemis, document: Document, gateway: Gateway) -> None:
        self.artemis, self.gateway, name = artemis, gateway, uuid4().hex
        self.queues = [f"in-{name}", f"out-{name}"]
        with Peer(artemis.port) as far:
            far.sasl_plain(artemis.user, artemis.password).negotiate()
            outbox = Outbox(far, self.queues[0])
            assert outbox.send_with_credit(message(b"in", header=DURABLE)).matches("accepted")
        self.peer = Peer(document.edge)
        self.peer.start()
        self.controller = Controller(self.peer)
        transfer = Inbox(self.peer, f"far/{self.queues[0]}", 1).transfer()
        outbox = Outbox(self.peer, f"far/{self.queues[1]}", 2)
        outbox.credit()
        outbox.outcomes = self.controller.outcomes
        self.txn_id = self.controller.declare()
        for number in range(2):
            posted = outbox.send(message(b"%d" % number, header=DURABLE), state=in_transaction(self.txn_id))
            assert posted.matches({"outcome": "accepted"})
        self.peer.disposition(transfer.delivery_id, in_transaction(self.txn_id, "accepted"), settled=False)

    def discharge(self) -> None:
        """Send the discharge, and see that the gateway has it."""
        self.controller.discharging(self.txn_id)
        self.peer.flow(echo=True)

    def answer(self) -> str:
        """What the client hears of its discharge: `accepted`, or the condition of an error."""
        while (frame := self.peer.receive()) is not None:
            if frame.kind == "detach" and frame.handle == self.controller.handle:
                return str(frame.error["condition"])
            if frame.kind == "disposition" and frame.first == self.peer.last_delivery:
                return "accepted" if frame.state.matches("accepted") else str(frame.state["error"]["condition"])
        raise AssertionError("the connection has ended")

    def left(self) -> list[list[bytes]]:
        """Start the broker again, and return what its two queues have."""
        self.peer.close()
        self.artemis.kill()
        self.artemis.start()
        wait_until(self.gateway.is_ready, "the connector to be back")
        found = []
        with Peer(self.artemis.port) as far:
            far.sasl_plain(self.artemis.user, self.artemis.password).negotiate()
            for handle, queue in enumerate(self.queues):
                inbox, bodies = Inbox(far, queue, handle, credit=0), []
                far.flow(handle, link_credit=10, delivery_count=0, drain=True)
                while (frame := far.receive()) is not None and not (frame.kind == "flow" and frame.handle == handle):
                    if frame.kind == "transfer":
                        bodies.append(bytes(sections(frame.payload)["data"]))
                        far.disposition(frame.delivery_id, "accepted")
                found.append(bodies)
                assert inbox.handle == handle
        return found


class StoringArtemis(Artemis):
    """A broker that has its messages again after its death."""

    options = Artemis.options.replace("--disable-persistence", "")


@pytest.fixture
def own_artemis() -> Iterator[Artemis]:
    """A broker to be killed."""
    yield from served(StoringArtemis())


@pytest.mark.soak
def test_a_broker_that_dies_in_a_transaction_has_all_of_it_or_nothing(
    start_gateway: Gateways, own_artemis: Artemis
) -> None:
    """The client hears of a rollback before the discharge; later, that nobody knows (decision 83)."""
    document, gateway = place(start_gateway, own_artemis)
    nothing, everything, drawn = [[b"in"], []], [[], [b"0", b"1"]], random.Random(SEED)
    assert own_artemis.process is not None

    before = Round(own_artemis, document, gateway)
    own_artemis.kill()
    wait_until(lambda: not gateway.is_ready(), "the connector to notice")
    before.discharge()
    assert before.answer() == "amqp:transaction:rollback"
    assert before.left() == nothing

    during = Round(own_artemis, document, gateway)
    own_artemis.process.send_signal(signal.SIGSTOP)
    during.discharge()
    own_artemis.kill()
    assert during.answer() == "amqp:internal-error"
    assert during.left() == nothing

    for _ in range(4):
        racing = Round(own_artemis, document, gateway)
        death = threading.Timer(drawn.uniform(0, 0.03), own_artemis.kill)
        death.start()
        racing.discharge()
        answer = racing.answer()
        death.join()
        right = {"accepted": [everything], "amqp:transaction:rollback": [nothing]}
        assert racing.left() in right.get(answer, [nothing, everything]), answer
        print(answer)

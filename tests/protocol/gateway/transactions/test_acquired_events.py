"""Events that are acquired in transactions, on plain, durable and group links (AMQP 1.0 part 4, 4.4.3; KM-14)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import source
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import Outbox
from tests.support.transactions.acquiring import Acquirer
from tests.support.transactions.controller import Controller, in_transaction

pytestmark = pytest.mark.row("CORE-9", part="acquisition")
ADDRESS = "events/orders"
KINDS = ("plain", "durable", "group")


def attached(peer: Peer, handle: int, kind: str, name: str, settled: bool = False) -> Acquirer:
    """A link of this kind, whose name is the same at every connection; `name`: of its group."""
    durable: dict[str, Any] = {"durable": 1, "expiry_policy": "never"} if kind == "durable" else {}
    properties = {"event-streams-consumer-group": name} if kind == "group" else None
    mode = 1 if settled else 2
    fields = {"source": source(ADDRESS, **durable), "properties": properties, "snd_settle_mode": mode}
    peer.attach("acquirer", RECEIVER, handle, **fields)
    peer.until("attach", name="acquirer")
    return Acquirer.adopt(peer, handle)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rollback_sends_them_again(served: Served, kind: str, settled: bool) -> None:
    name = f"rollback-{kind}-{settled}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, kind, name, settled)
    bodies = [f"{name}-{number}".encode() for number in range(3)]
    first, second = controller.declare(), controller.declare()
    inbox.ask(first, 3)
    for each in bodies:
        assert feed.send(message(each)).matches("accepted")
    transfers = [inbox.acquired(first) for _ in bodies]
    assert [sections(each.payload)["data"] for each in transfers] == bodies
    if not settled:
        inbox.retire(transfers[0], first)
        inbox.retire(transfers[1], first, settled=False)
    assert controller.discharge(first, fail=True).matches("accepted")
    inbox.ask(second, 3)
    assert inbox.bodies(second, 3) == bodies


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("kind", ["durable", "group"])
def test_positions_are_committed_with_the_transaction(served: Served, kind: str, settled: bool) -> None:
    """An event that is left without an outcome comes again to the next link; what is sent settled is accepted."""
    name = f"committed-{kind}-{settled}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, kind, name, settled)
    bodies = [f"{name}-{number}".encode() for number in range(4)]
    txn_id = controller.declare()
    inbox.ask(txn_id, 3)
    for each in bodies:
        assert feed.send(message(each)).matches("accepted")
    transfers = [inbox.acquired(txn_id) for _ in range(3)]
    if not settled:
        inbox.retire(transfers[0], txn_id)
        inbox.retire(transfers[1], txn_id, settled=False)
    assert controller.discharge(txn_id).matches("accepted")
    peer.detach(1, closed=False)
    peer.until("detach")
    peer.disconnect()
    resumed = attached(served.peer(container_id=name), 0, kind, name)
    resumed.peer.flow(0, link_credit=10, delivery_count=0)
    wanted = bodies[3 if settled else 2 :]
    assert resumed.bodies(None, len(wanted)) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_an_outcome_outside_ends_the_control_link_and_the_event_comes_again(served: Served, kind: str) -> None:
    name = f"outside-{kind}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, kind, name)
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    body = name.encode()
    assert feed.send(message(body)).matches("accepted")
    inbox.retire(inbox.acquired(txn_id), None)
    peer.until("detach", handle=0, closed=True, error="amqp:transaction:rollback")
    peer.flow(1, link_credit=1, delivery_count=1)
    assert inbox.bodies(None, 1) == [body]


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_ends_with_the_log(served: Served, kind: str) -> None:
    name = f"drain-{kind}"
    peer, feed = served.peer(container_id=name), Outbox(served.peer(), ADDRESS)
    controller, inbox = Controller(peer), attached(peer, 1, kind, name)
    txn_id = controller.declare()
    inbox.ask(txn_id, 10)
    assert feed.send(message(name.encode())).matches("accepted")
    inbox.retire(inbox.acquired(txn_id), txn_id)
    assert inbox.drained(txn_id)
    assert controller.discharge(txn_id).matches("accepted")


def test_a_transaction_has_the_resource_of_its_first_flow(served: Served) -> None:
    """A durable link has a position at its cluster, so its transaction takes nothing of a direct node."""
    peer = served.peer(container_id="first")
    controller, inbox = Controller(peer), attached(peer, 1, "durable", "first")
    outbox = Outbox(peer, "acquired/mixed", 2)
    txn_id = controller.declare()
    inbox.ask(txn_id, 1)
    receiver = served.peer()
    receiver.attach_receiver("acquired/mixed")
    receiver.flow(0, link_credit=1)
    outbox.credit()
    outcome = outbox.send(message(b"1"), state=in_transaction(txn_id))["outcome"]
    assert outcome["error"]["condition"] == "amqp:not-implemented"

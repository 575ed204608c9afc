"""Messages in transactions on links that the gateway has ended: its detach and they have crossed on the way."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.crossing import Outbox
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.together import together

ADDRESS = "events/orders"


def refused(controller: Controller, txn_id: bytes) -> bool:
    """Whether a commit is a rollback; and whether another transaction can be committed after it."""
    condition = controller.discharge(txn_id)["error"]["condition"]
    assert controller.discharge(controller.declare()).matches("accepted")
    return bool(condition == "amqp:transaction:rollback")


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("messages", ["one", "several", "in parts", "of another format"])
def test_messages_that_come_after_the_end_of_their_link(served: Served, messages: str, settled: bool) -> None:
    """They are dropped, and what else was sent in the transaction is not committed without them."""
    name = f"ended-{messages}-{settled}"
    peer = served.peer(container_id=name)
    controller, kept, ended = Controller(peer), Outbox(peer, ADDRESS, 1), Outbox(peer, ADDRESS, 2)
    txn_id = controller.declare()
    state = in_transaction(txn_id)
    assert kept.send(message(b"kept"), state=state).matches({"outcome": "accepted"})
    served.peer(container_id=name).attach("sender-2", SENDER, 0, target=target(ADDRESS))
    peer.until("detach", error="amqp:link:stolen")
    if messages == "in parts":
        peer.transfer(message(b"in"), 2, state=state, settled=settled, more=True)
        peer.send("transfer", handle=2, payload=b"")
    else:
        number = 5 if messages == "of another format" else 0
        for _ in range(4 if messages == "several" else 1):
            ended.post(message(b"lost"), state=state, settled=settled, message_format=number)
    assert refused(controller, txn_id)


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_that_ends_its_link_as_it_is_too_large(served: Served, settled: bool) -> None:
    peer = Peer(served.quiet)
    peer.start()
    controller, outbox = Controller(peer), Outbox(peer, ADDRESS, 1)
    txn_id = controller.declare()
    assert outbox.send(message(b"kept"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
    outbox.post(message(b"x" * 2000), state=in_transaction(txn_id), settled=settled)
    peer.until("detach", handle=1, error="amqp:link:message-size-exceeded")
    assert refused(controller, txn_id)


@pytest.mark.parametrize("in_parts", [False, True])
def test_messages_behind_one_that_ends_their_link(served: Served, in_parts: bool) -> None:
    """They come in the same read, and the one before them is in no transaction."""
    peer = served.peer()
    controller, outbox = Controller(peer), Outbox(peer, ADDRESS, 1)
    txn_id = controller.declare()
    with together(peer):
        peer.transfer(b"\x00\x53\x75\x01", 1, settled=True)
        outbox.post(message(b"lost"), state=in_transaction(txn_id), settled=True, more=in_parts)
        if in_parts:
            peer.send("transfer", handle=1, payload=b"")
    peer.until("detach", handle=1, error="amqp:decode-error")
    assert refused(controller, txn_id)

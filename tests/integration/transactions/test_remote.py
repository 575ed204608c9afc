"""Nodes in another container take no part in a transaction: what is posted to them there is refused at once (KM-14)."""

from __future__ import annotations

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Listener
from tests.support.gateway.crossing import Outbox, connected
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.transactions.controller import Controller, in_transaction


@pytest.mark.parametrize("relay", [False, True], ids=["link", "anonymous relay"])
def test_a_message_to_another_container_is_refused(start_gateway: Gateways, relay: bool) -> None:
    """By way of a link of its own, or of the anonymous terminus there."""
    with Listener() as listener:
        far = Far(start_gateway, listener, ", use_relay: true" if relay else "")
        far.accept(*(["ANONYMOUS-RELAY"] if relay else []))
        peer = connected(far.core)
        controller = Controller(peer)
        peer.attach("sender", SENDER, 1, target=frames.target("far/x"))
        if not relay:
            far.take(far.attach())
        peer.until("flow", handle=1)
        outbox, txn_id = Outbox.adopt(peer, 1), controller.declare()
        refused = outbox.post(message(b"no", to="far/x"), state=in_transaction(txn_id))
        if relay:  # its link there comes with the first message
            far.take(far.attach())
        assert outbox.outcome(refused)["outcome"]["error"]["condition"] == "amqp:not-implemented"
        assert controller.discharge(txn_id).matches("accepted")
        outbox.post(message(b"outside", to="far/x"))
        assert far.peer.until("transfer").payload.endswith(b"outside")

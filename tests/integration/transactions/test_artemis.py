"""Transactions of clients at a real Artemis, by its own coordinator, through a connector (KM-14, decision 83)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.amqp.proton_clients import Login, receive
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.servers.servers import Artemis
from tests.support.transactions.clients import done, transacting
from tests.support.transactions.controller import Controller, in_transaction


def place(gateways: Gateways, artemis: Artemis, **connector: object) -> Document:
    """Start a gateway whose addresses `far/…` are at the broker."""
    document = Document(id="gw-artemis")
    sasl = {"mechanism": "plain", "user": artemis.user, "password": {"env": "ARTEMIS"}}
    document.connector(artemis.port, "far", sasl=sasl, allow_plain_without_tls=True, **connector)
    rule = {"match": "far/{name}", "relay": "far", "address": "{name}", "replies": "none"}
    document.scope()["addresses"].append(rule)
    gateways(document.text, env={"ARTEMIS": artemis.password})
    return document


@pytest.mark.row("AT-2.2.2-11", part="Artemis")
@pytest.mark.parametrize("library", ["jms", "protonj2"])
def test_clients_work_in_transactions_at_the_broker(start_gateway: Gateways, artemis: Artemis, library: str) -> None:
    """Messages that are sent, received, and made of others; rollbacks bring those that were received again."""
    document, name = place(start_gateway, artemis), uuid4().hex
    done(transacting(library, document.edge, f"far/in-{name}", f"far/out-{name}"))
    made = receive(Login(artemis.port, artemis.user, artemis.password), f"out-{name}", 3).finish()
    assert [each.message.body for each in made] == [f"out of in {number}" for number in range(3)]


@pytest.mark.parametrize("relay", [False, True], ids=["link", "anonymous relay"])
def test_nothing_is_there_before_the_commit(start_gateway: Gateways, artemis: Artemis, relay: bool) -> None:
    """Nor after the client is gone without one."""
    document, queue = place(start_gateway, artemis, use_relay=relay), f"q-{uuid4().hex}"
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

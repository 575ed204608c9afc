"""A transaction of ten million posts takes a bounded part of the memory, and nobody else suffers from it.

`make soak` posts so many once; the test by itself posts a million.
"""

from __future__ import annotations

import os
import struct
from typing import Final

import pytest

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import resident
from tests.support.transactions.controller import Controller, in_transaction

POSTS: Final = int(os.environ.get("SCOPEGATE_POSTS", "1_000_000"))
MORE: Final = 100 * 1024 * 1024
"""Bytes that the gateway may take beside what it had."""


class Flood:
    """Sends settled posts in one transaction as fast as there is credit, from frames that are made once."""

    def __init__(self, peer: Peer, txn_id: bytes, handle: int) -> None:
        self._peer, self._handle = peer, handle
        self.sent = 0
        state = in_transaction(txn_id)
        frame = frames.framed(
            frames.performative(
                "transfer", handle=handle, delivery_id=0x7FFFFFFF, delivery_tag=b"x", message_format=0, settled=True,
                state=state,
            )
            + message(b"flood")
        )  # fmt: skip
        self._at = frame.index(b"\x70\x7f\xff\xff\xff") + 1
        self._frame = frame

    def go(self, count: int) -> None:
        """Send so many posts."""
        credit, size = 0, len(self._frame)
        while self.sent < count:
            while credit <= 0:
                flow = self._peer.until("flow", handle=self._handle)
                credit = flow.delivery_count + flow.link_credit - self.sent
            run = min(credit, count - self.sent)
            data = bytearray(self._frame * run)
            for index in range(run):
                struct.pack_into(">I", data, index * size + self._at, self._peer.last_delivery + 1 + index)
            self._peer.send_raw(bytes(data))
            self._peer.count(run)
            self.sent, credit = self.sent + run, credit - run
            self._peer.transcript.clear()


@pytest.mark.soak
@pytest.mark.parametrize("address", ["chat/flood", "events/flood"])
def test_a_transaction_of_very_many_posts(start_gateway: Gateways, address: str) -> None:
    """Too many for a node that stores nothing, and too long for a topic: it can only be rolled back."""
    document = Document(log="json")
    document.scope()["transaction_timeout"] = "2s"
    document.kafka("embedded", topics={"flood": 1})
    gateway = start_gateway(document.text)
    with Peer(document.edge) as peer:
        peer.start()
        controller = Controller(peer)
        txn_id = controller.declare()
        Inbox(peer, address, 1, credit=1000)  # who sends to nobody gets no credit
        peer.attach_sender(address, 2)
        before = resident(gateway.process.pid)
        Flood(peer, txn_id, 2).go(POSTS)
        after = resident(gateway.process.pid)
        outcome = controller.discharge(txn_id)
        print(f"{POSTS} posts: {before >> 20} and {after >> 20} MiB; {outcome!r}")
        assert after < before + MORE
        assert outcome["error"]["condition"] in {"amqp:transaction:rollback", "amqp:transaction:timeout"}
    inbox = Inbox(document.edge, address)
    outbox = Outbox(document.edge, address)
    outbox.credit()
    assert outbox.send_and_accept(message(b"another"), inbox).matches("accepted")

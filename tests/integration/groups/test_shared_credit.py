"""The credit of senders to a direct node: the credit of its receivers, and at least one for each sender (C8)."""

from __future__ import annotations

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox, Place, connected, start
from tests.support.gateway.gateway import Gateways

SENDERS = 12


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway, "gw-shared-credit")


@pytest.mark.parametrize("settled", [False, True])
def test_each_of_many_senders_has_one_credit_and_what_is_too_much_waits(place: Place, settled: bool) -> None:
    address, peer = f"q/many-{settled}", connected(place.edge)
    senders = [Outbox(peer, address, handle) for handle in range(SENDERS)]
    inbox = Inbox(connected(place.edge), address, credit=3)
    assert [sender.credit() for sender in senders] == [1] * SENDERS
    posted = [sender.post(message(b"%d" % at), settled=settled) for at, sender in enumerate(senders)]
    got = [sections(inbox.take())["data"] for _ in range(3)]
    inbox.peer.flow(0, link_credit=SENDERS - 3, delivery_count=3)
    got += [sections(inbox.take())["data"] for _ in range(SENDERS - 3)]
    assert got == [b"%d" % at for at in range(SENDERS)]
    if not settled:
        assert all(senders[0].outcome(each).matches("accepted") for each in posted)


def test_a_sender_keeps_its_credit_when_the_receivers_leave(place: Place) -> None:
    """Its messages are then answered as if there never was a receiver: they do not wait for one."""
    sender, inbox = Outbox(place.edge, "q/leave"), Inbox(place.edge, "q/leave", credit=2)
    assert sender.credit() == 2
    inbox.peer.detach(0).until("detach", closed=True)
    assert sender.send(message(b"unsettled")).matches("released")
    dropped = 'scopegate_dropped_total{rule="q/**",scope="edge"}'
    before = place.gateway.metrics().get(dropped, 0.0)
    sender.post(message(b"settled"), settled=True)
    place.gateway.wait_metric(dropped, lambda value: value == before + 1)
    later = Inbox(place.edge, "q/leave", credit=1)
    assert later.empty()

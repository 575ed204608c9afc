"""Links to an event log keep every rule of core AMQP: credit, drain, settlement, outcomes (ES 3.2)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.types import Described, Ulong
from tests.protocol.conftest import Served
from tests.support.amqp.frames import Frame, composite, error, source
from tests.support.amqp.peer import Peer

NEW, FIRST, SECOND = b"\x00\x53\x75\xa0\x03new", b"\x00\x53\x75\xa0\x05first", b"\x00\x53\x75\xa0\x06second"
"""Messages of one data section, as literal bytes."""
COUNTED_ONCE, ANNOTATIONS = b"\x00\x53\x70\xc0\x07\x05\x40\x40\x40\x40\x52\x01", b"\x00\x53\x71"
"""How an event begins: a header whose delivery-count is one, or without a header."""
MODES = {"settles first": 0, "settles second": 1}
OUTCOMES: dict[str, tuple[Any, int | None]] = {
    "accepted": (composite("accepted"), None),
    "rejected": (composite("rejected", error=error("vendor:no")), None),
    "undeliverable": (composite("modified", delivery_failed=True, undeliverable_here=True), None),
    "released": (composite("released"), 0),
    "modified": (composite("modified"), 0),
    "failed": (composite("modified", delivery_failed=True), 1),
}
"""Each with the delivery-count of the event when it comes again, None where it does not."""


def receiver(served: Served, **fields: Any) -> Peer:
    """A peer with a link that begins at the end of the log; no credit yet."""
    peer = served.peer()
    answered = peer.attach_receiver("events/orders", **fields)
    assert answered.rcv_settle_mode == fields.get("rcv_settle_mode", 0)
    return peer


def produce(served: Served, *payloads: bytes) -> None:
    """Add events to the log, each accepted."""
    with served.peer() as sender:
        sender.attach_sender("events/orders")
        sender.until("flow", handle=0)
        for number, payload in enumerate(payloads):
            sender.transfer(payload)
            sender.until("disposition", first=number, settled=True, state="accepted")


def event(peer: Peer, payload: bytes, handle: int = 0) -> Frame:
    """The next frame is this event, unsettled."""
    transfer = peer.expect("transfer", handle=handle)
    assert not transfer.settled
    assert transfer.payload.endswith(payload)
    return transfer


def settle(peer: Peer, transfer: Frame, state: Any, mode: int) -> None:
    """Give an outcome; in the second mode the sender settles before we do (2.6.12)."""
    number = transfer.delivery_id
    if mode == 0:
        peer.disposition(number, state)
        return
    peer.disposition(number, state, settled=False)
    answered = peer.expect("disposition", role=False, first=number, settled=True)
    assert answered.last in (None, number)
    peer.disposition(number, state)


@pytest.mark.row("ES-3.2-6", "ES-3.2-1")
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize(("state", "count"), OUTCOMES.values(), ids=OUTCOMES)
def test_every_outcome_settles_in_both_modes(served: Served, state: Any, count: int | None, mode: int) -> None:
    """What was given back comes again before the event after it, with its delivery-count; what was not, does not."""
    with receiver(served, rcv_settle_mode=mode) as peer:
        produce(served, FIRST, SECOND)
        peer.flow(0, link_credit=1)
        settle(peer, event(peer, FIRST), state, mode)
        peer.flow(0, link_credit=1, delivery_count=1)
        if count is not None:
            again = event(peer, FIRST)
            assert again.payload.startswith(COUNTED_ONCE if count else ANNOTATIONS)
            settle(peer, again, composite("accepted"), mode)
            peer.flow(0, link_credit=1, delivery_count=2)
        settle(peer, event(peer, SECOND), composite("accepted"), mode)
        done = 2 if count is None else 3
        peer.flow(0, link_credit=5, delivery_count=done, drain=True)
        assert peer.expect("flow", handle=0, link_credit=0).delivery_count == done + 5
        peer.close()
        assert peer.expect("close").error is None


NO_OUTCOMES = {
    "received": composite("received", section_number=0, section_offset=0),
    "unknown": Described(Ulong(0x1234_0000_0001), []),
}


@pytest.mark.parametrize("state", NO_OUTCOMES.values(), ids=NO_OUTCOMES)
def test_an_event_that_is_settled_in_a_state_that_is_no_outcome_comes_again(served: Served, state: Any) -> None:
    """Nobody knows what has become of it (core 3.4): so it may have been delivered before, and counts as that."""
    with receiver(served) as peer:
        produce(served, FIRST, SECOND)
        peer.flow(0, link_credit=1)
        peer.disposition(event(peer, FIRST).delivery_id, state)
        peer.flow(0, link_credit=1, delivery_count=1)
        again = event(peer, FIRST)
        assert again.payload.startswith(COUNTED_ONCE)
        peer.disposition(again.delivery_id, None)
        peer.flow(0, link_credit=1, delivery_count=2)
        event(peer, SECOND)


@pytest.mark.row("ES-3.2-1")
def test_no_event_goes_beyond_the_credit(served: Served) -> None:
    """Shown by another link of the same connection, which has got what this one may not have."""
    with receiver(served) as peer:
        peer.attach_receiver("events/orders", 1)
        peer.flow(0, link_credit=1)
        produce(served, FIRST, SECOND, NEW)
        event(peer, FIRST)
        peer.flow(1, link_credit=3)
        for payload in (FIRST, SECOND, NEW):
            event(peer, payload, 1)
        peer.flow(0, link_credit=1, delivery_count=1)
        event(peer, SECOND)
        peer.flow(1, link_credit=4, delivery_count=3, drain=True)
        assert peer.expect("flow", handle=1, link_credit=0).delivery_count == 7
        peer.flow(0, link_credit=4, delivery_count=2, drain=True)
        event(peer, NEW)
        assert peer.expect("flow", handle=0, link_credit=0).delivery_count == 6


@pytest.mark.row("ES-3.2-1")
def test_a_receiver_that_wants_settled_events_gets_them_settled(served: Served) -> None:
    with served.peer() as peer:
        assert peer.attach_receiver("events/orders", snd_settle_mode=1).snd_settle_mode == 1
        produce(served, NEW)
        peer.flow(0, link_credit=1)
        assert peer.expect("transfer", settled=True).payload.endswith(NEW)


@pytest.mark.row("CORE-13", part="events behind one without an outcome")
def test_a_drain_does_not_wait_for_events_that_wait_for_an_outcome(served: Served) -> None:
    """An event that comes again holds newer ones back (`strict_order`): before its outcome they are not available."""
    with served.peer(container_id="drains") as peer:
        peer.attach_receiver(None, source=source("events/orders", durable=1, expiry_policy="never"))
        produce(served, FIRST, SECOND)
        peer.flow(0, link_credit=1)
        settle(peer, event(peer, FIRST), composite("released"), 0)
        peer.flow(0, link_credit=1, delivery_count=1)
        again = event(peer, FIRST)
        peer.flow(0, link_credit=5, delivery_count=2, drain=True)
        assert peer.expect("flow", handle=0, link_credit=0).delivery_count == 7
        settle(peer, again, composite("accepted"), 0)
        peer.flow(0, link_credit=1, delivery_count=7)
        event(peer, SECOND)

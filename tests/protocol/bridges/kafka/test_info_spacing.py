"""`$info` with several credits: when the messages come, and what they say by literal bytes (ES 6)."""

from __future__ import annotations

import time

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.peer import Peer

EVENT = b"\x00\x53\x75\xa0\x01x"
EARLY = 0.1
"""Seconds by which a clock may be read too early."""


ORDERS: list[int] = []
"""Offsets of what is in `events/orders`, to which nobody else sends in this module: a test may run again and again."""


def produce(sender: Peer) -> int:
    """Send an event and return its offset."""
    sender.transfer(EVENT)
    sender.until("disposition", first=sender.last_delivery, settled=True, state="accepted")
    ORDERS.append(len(ORDERS))
    return ORDERS[-1]


def expect_info(info: Peer, latest: int | None) -> float:
    """The next frame is a message with this latest offset; return when it came."""
    said = b"\x40" if latest is None else b"\xa3\x14%020d" % latest
    payload = info.expect("transfer", handle=0).payload
    assert payload.startswith(b"\x00\x53\x77")
    assert b"\xa1\x0dlatest-offset" + said in payload
    return time.monotonic()


@pytest.mark.row("ES-6-3", "ES-6-5")
def test_five_credits_are_spaced_and_say_what_changed(served: Served) -> None:
    """At once; on a change, but never within a second; without one after five seconds; all five come."""
    with served.peer() as info, served.peer() as sender:
        sender.attach_sender("events/orders")
        sender.until("flow", handle=0)
        info.attach_receiver("events/orders/$info")
        asked = time.monotonic()
        info.flow(0, link_credit=5)
        times = [expect_info(info, ORDERS[-1] if ORDERS else None)]
        first = produce(sender)
        times.append(expect_info(info, first))
        times.append(expect_info(info, first))
        for _ in range(2):
            latest = produce(sender)
            times.append(expect_info(info, latest))
        # What comes late here was sent in time: each is counted from the first request, not from the one before.
        for came, least in zip(times, (0, 1, 6, 7, 8), strict=True):
            assert came - asked >= least - EARLY
        info.flow(0, link_credit=3, delivery_count=5, drain=True)
        assert info.expect("flow", handle=0, link_credit=0).delivery_count == 8  # one was told: the rest goes back


@pytest.mark.row("ES-6-5")
def test_a_drain_is_told_once_and_gets_the_rest_of_its_credit_back(served: Served) -> None:
    with served.peer() as info:
        info.attach_receiver("events/sizes/$info")
        info.flow(0, link_credit=5, drain=True)
        expect_info(info, None)
        assert info.expect("flow", handle=0, link_credit=0).delivery_count == 5

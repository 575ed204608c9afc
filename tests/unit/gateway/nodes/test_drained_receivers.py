"""What a direct node counts as credit when a receiver has drained it (row CORE-13)."""

from __future__ import annotations

from tests.support.amqp.direct import Node


def test_credit_that_was_given_back_is_nobodys() -> None:
    node = Node()
    drains, other = node.receiver(), node.receiver()
    sender = node.sender()
    drains.flow(3, drain=True)
    assert (drains.returned, sender.granted, node.meeting.supply()) == (3, 3, 0)
    other.flow(1)
    assert sender.granted == 3

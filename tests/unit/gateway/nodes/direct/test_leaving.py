"""The receiver of very many messages leaves: their senders get the outcomes in turns of the loop."""

from __future__ import annotations

from gateway.agenda import AT_ONCE
from gateway.amqp.link.outcomes import FAILED
from tests.support.amqp.direct import Node

MANY = 3 * AT_ONCE


def test_what_a_receiver_has_not_settled_fails_in_turns() -> None:
    """80,000 messages held everybody for a fifth of a second."""
    node = Node()
    senders = [node.sender(), node.sender()]
    receiver, other = node.receiver(MANY), node.receiver()
    for number in range(MANY):
        senders[number % 2].transfer(b"%d" % number)
    assert len(receiver.contexts) == MANY
    receiver.take_unsettled = receiver.contexts.copy  # type: ignore[method-assign]
    receiver.leave()
    assert sum(len(each.outcomes) for each in senders) == AT_ONCE
    senders[0].leave()
    other.flow(1)
    senders[1].transfer(b"last")
    assert other.got == [b"last"]
    while node.loop.turn():
        pass
    assert len(senders[0].outcomes) == AT_ONCE / 2, "it has left"
    assert senders[1].outcomes == {b"%d" % number: FAILED.name for number in range(1, MANY, 2)}

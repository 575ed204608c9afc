"""A multicast node with a crowd of receivers sends copies in turns of the loop; only the time tells (B5)."""

from __future__ import annotations

import pytest

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED
from gateway.nodes.direct.copies import SLICE
from gateway.nodes.direct.multicast import Multicast
from tests.support.amqp.direct import Node, Wire, steps

CROWD = 2 * SLICE + 50


class ManyLinks:
    """A sender and receivers with credit for so many messages each."""

    def __init__(self, credit: int = 2, size: int = CROWD) -> None:
        self.node = Node(Multicast)
        self.sender = self.node.sender()
        self.receivers = [self.node.receiver(credit) for _ in range(size)]
        self.turns()

    def turns(self) -> int:
        """Let the loop turn until nothing is left to do; the most copies that were sent in one turn."""
        most, before = 0, self.copies
        while self.node.loop.turn():
            most, before = max(most, self.copies - before), self.copies
        return most

    @property
    def copies(self) -> int:
        return sum(len(each.got) for each in self.receivers)

    def accept(self, receivers: list[Wire]) -> None:
        for each in receivers:
            while each.contexts:
                each.handler.on_outcome(each.contexts.pop(0), ACCEPTED)


def test_copies_for_a_crowd_are_sent_in_turns_and_in_order() -> None:
    crowd = ManyLinks()
    for body in (b"1", b"2"):
        crowd.sender.transfer(body)
    assert crowd.copies == SLICE
    assert crowd.turns() <= 2 * SLICE
    assert all(each.got == [b"1", b"2"] for each in crowd.receivers)


def test_what_comes_meanwhile_is_not_held_against_each_receiver() -> None:
    crowd = ManyLinks()
    crowd.sender.transfer(b"1")
    assert steps(lambda: crowd.sender.transfer(b"2")) < CROWD


def test_what_waits_for_a_few_receivers_is_sent_in_turns_too() -> None:
    node = Node(Multicast)
    sender, receivers = node.sender(), [node.receiver(200) for _ in range(10)]
    slow = node.receiver(1)
    slow.flow(200)
    bodies = [b"%d" % number for number in range(sender.granted)]
    for each in receivers:
        each.engine.blocked = True
    for body in bodies:
        sender.transfer(body)
    for each in receivers:
        each.engine.blocked = False
    receivers[0].handler.on_credit()
    assert SLICE <= sum(map(len, (each.got for each in receivers))) <= 2 * SLICE
    while node.loop.turn():
        pass
    assert all(each.got == bodies for each in (*receivers, slow))


def test_the_sender_hears_once_when_all_outcomes_are_in() -> None:
    crowd = ManyLinks()
    message = crowd.sender.transfer(b"1")
    crowd.accept(crowd.receivers)
    assert not crowd.sender.outcomes, "most have not been sent theirs"
    crowd.turns()
    crowd.accept(crowd.receivers[:-1])
    assert not crowd.sender.outcomes
    crowd.accept(crowd.receivers[-1:])
    assert crowd.sender.outcomes == {message: "accepted"}


@pytest.mark.parametrize(("left", "outcome"), [(1, "accepted"), (CROWD, "released")])
def test_who_leaves_before_its_turn_is_not_waited_for(left: int, outcome: str) -> None:
    crowd = ManyLinks(1)
    message = crowd.sender.transfer(b"1")
    crowd.receivers[-1].leave()
    if left > 1:
        for each in crowd.receivers[:-1]:
            for context in each.contexts:
                each.handler.on_outcome(context, RELEASED)
            each.leave()
    crowd.turns()
    crowd.accept([each for each in crowd.receivers if each.open])
    assert crowd.sender.outcomes == {message: outcome}
    assert crowd.receivers[-1].got == []


def test_a_sender_that_leaves_costs_nobody_its_copy() -> None:
    crowd = ManyLinks()
    crowd.sender.transfer(b"1", settled=True)
    crowd.sender.leave()
    crowd.turns()
    assert all(each.got == [b"1"] for each in crowd.receivers)


def test_who_has_lost_its_credit_meanwhile_is_sent_its_copy_before_the_next_message() -> None:
    crowd = ManyLinks()
    last = crowd.receivers[-1]
    for body in (b"1", b"2"):
        crowd.sender.transfer(body)
    last.flow(0)
    crowd.turns()
    assert (last.got, crowd.copies) == ([], CROWD - 1), "the slowest sets the pace"
    last.flow(2)
    crowd.turns()
    assert all(each.got == [b"1", b"2"] for each in crowd.receivers)


def test_the_sender_is_granted_what_all_can_take_and_no_more() -> None:
    crowd = ManyLinks(2)
    assert crowd.sender.granted == 2
    crowd.sender.transfer(b"1")
    for each in crowd.receivers[:SLICE]:
        assert each.window == 1
    assert crowd.sender.granted == 1
    crowd.turns()
    assert crowd.sender.granted == 1
    crowd.sender.transfer(b"2")
    crowd.turns()
    assert crowd.sender.granted == 0
    for each in crowd.receivers:
        each.flow(3)
    assert crowd.sender.granted == 3


def test_credit_that_is_spoken_for_is_not_granted_again() -> None:
    """The last of them has one credit, and is yet to be sent the copy that it is for."""
    node = Node(Multicast)
    receivers = [node.receiver(5) for _ in range(CROWD)]
    receivers[-1].flow(1)
    sender = node.sender()
    assert sender.granted == 1
    sender.transfer(b"1")
    assert (sender.granted, receivers[-1].got) == (0, [])
    while node.loop.turn():
        pass
    assert (sender.granted, receivers[-1].got) == (0, [b"1"])


def test_a_drain_comes_behind_what_is_there() -> None:
    crowd = ManyLinks(3)
    last = crowd.receivers[-1]
    for body in (b"1", b"2"):
        crowd.sender.transfer(body)
    last.flow(3, drain=True)
    assert last.draining, "its copy of the second message is to come"
    crowd.turns()
    assert (last.got, last.draining, last.returned) == ([b"1", b"2"], False, 1)


@pytest.mark.parametrize(("size", "which"), [(CROWD, 0), (CROWD, CROWD - 1), (5, 0), (5, 4)])
def test_a_copy_that_fails_keeps_no_other_from_being_sent(size: int, which: int) -> None:
    crowd = ManyLinks(2, size)
    crowd.receivers[which].send = None  # type: ignore[assignment, method-assign]
    failed = 0
    for step in (lambda: crowd.sender.transfer(b"1"), *[crowd.turns] * 3):
        try:
            step()
        except TypeError:
            failed += 1
    assert failed == 1
    assert crowd.copies == size - 1
    crowd.accept(crowd.receivers)
    assert list(crowd.sender.outcomes.values()) == ["modified"]
    crowd.receivers[which].leave()
    crowd.sender.transfer(b"2")
    crowd.turns()
    assert crowd.copies == 2 * (size - 1), "the node goes on"

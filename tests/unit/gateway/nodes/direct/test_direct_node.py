"""The direct node by itself: who gets what waits, how credit is shared, and that no event walks over all links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from gateway.nodes.direct.multicast import Multicast
from gateway.nodes.direct.node import DirectNode
from tests.support.amqp.direct import Loop, Node, Wire, steps
from tests.support.amqp.messages import message

FEW, MANY = 60, 240


def colored(color: str, number: int = 0) -> bytes:
    return message(b"%d" % number, app={"color": color, "number": number})


def red(count: int) -> list[bytes]:
    return [colored("red", number) for number in range(count)]


def waiting(node: Node, messages: list[bytes], *, settled: bool = False) -> Wire:
    """A sender whose messages all wait: the receivers' credit was taken back after it was shared."""
    receivers = [end.link for end in node.meeting.receiver_endpoints]
    before = [link.window for link in receivers]
    receivers[0].flow(10 * len(messages) * (1 + len(node.meeting.sender_endpoints)))  # type: ignore[attr-defined]
    sender = node.sender()
    while node.loop.turn():
        pass
    for link, window in zip(receivers, before, strict=True):
        link.window = window
    for data in messages:
        sender.transfer(data, settled=settled)
    return sender


# -- who gets what waits


def test_receivers_have_their_turns() -> None:
    node = Node()
    receivers = [node.receiver(credit) for credit in (2, 4, 6)]
    sender = node.sender()
    for data in red(12):
        sender.transfer(data)
    assert [len(each.got) for each in receivers] == [2, 4, 6]
    assert receivers[0].got == [red(12)[0], red(12)[3]]


def test_receivers_with_different_filters_have_their_turns() -> None:
    node = Node()
    receivers = [node.receiver(10, where) for where in ("color = 'red'", "number >= 0", None)]
    sender = node.sender()
    for data in red(9):
        sender.transfer(data)
    assert [each.got for each in receivers] == [red(9)[start::3] for start in range(3)]


@pytest.mark.parametrize("settled", [False, True])
def test_what_waits_goes_to_the_first_that_takes_it(settled: bool) -> None:
    node = Node()
    reds, all_ = node.receiver(where="color = 'red'"), node.receiver()
    sent = [colored("red", 1), colored("blue", 2), colored("red", 3), colored("red", 4)]
    sender = waiting(node, sent, settled=settled)
    reds.flow(1)
    assert reds.got == [colored("red", 1)]
    all_.flow(2)
    assert all_.got == [colored("blue", 2), colored("red", 3)]
    reds.flow(5)
    assert reds.got == [colored("red", 1), colored("red", 4)]
    assert not node.meeting.waiting
    assert settled == bool(sender.outcomes)


def test_a_new_receiver_gets_what_waits_in_its_order() -> None:
    node = Node()
    stuck = node.receiver(where="color = 'red'")
    waiting(node, [*red(5), *(colored("red", 10 + number) for number in range(1500))])
    late = node.receiver(2000, "number >= 3")
    while node.loop.turn():
        pass
    assert late.got == [*red(5)[3:], *(colored("red", 10 + number) for number in range(1500))]
    stuck.flow(10)
    assert stuck.got == red(3)


def test_what_comes_while_a_new_receiver_is_asked_stays_behind_what_waited() -> None:
    node = Node()
    node.receiver(where="color = 'red'")
    sender = waiting(node, red(1200))
    late = node.receiver(2000, "number >= 0")
    sender.transfer(colored("red", 5000))
    assert late.got == []
    while node.loop.turn():
        pass
    assert late.got == [*red(1200), colored("red", 5000)]


def test_what_only_one_receiver_takes_goes_back_with_it() -> None:
    node = Node()
    reds, blues = node.receiver(where="color = 'red'"), node.receiver(where="color = 'blue'")
    also = node.receiver(where="number > 0")
    sender = waiting(node, [colored("red"), colored("red", 1), colored("blue")])
    reds.leave()
    assert sender.outcomes == {colored("red"): "released"}
    blues.leave()
    assert sender.outcomes == {colored("red"): "released", colored("blue"): "released"}
    also.flow(1)
    assert also.got == [colored("red", 1)]


def test_what_goes_back_with_its_receiver_frees_credit_for_the_others() -> None:
    node = Node()
    reds, blues = node.receiver(where="color = 'red'"), node.receiver(where="color = 'blue'")
    sender = node.sender()
    blues.flow(4)
    while sender.granted:
        sender.transfer(colored("red", sender.granted))
    reds.leave()
    assert set(sender.outcomes.values()) == {"released"}
    assert sender.granted == 4


@pytest.mark.parametrize("kind", [DirectNode, Multicast])
def test_nothing_is_sent_to_the_only_receiver_once_it_has_left(kind: type[DirectNode]) -> None:
    node = Node(kind)
    receiver, sender = node.receiver(2), node.sender()
    receiver.leave()
    assert sender.transfer(colored("red")) in sender.outcomes
    assert receiver.got == []


def test_a_full_socket_is_passed_over() -> None:
    node = Node()
    full, other = node.receiver(10), node.receiver(1)
    sender = node.sender()
    full.engine.blocked = True
    for data in red(3):
        sender.transfer(data)
    assert other.got == red(1)
    full.engine.blocked = False
    full.handler.on_credit()
    assert full.got == red(3)[1:]


# -- senders that leave


def test_what_was_sent_settled_is_delivered_though_its_sender_has_left() -> None:
    """Found as C8: nobody could send it again."""
    node = Node()
    receiver = node.receiver()
    sender = waiting(node, red(3), settled=True)
    sender.leave()
    receiver.flow(10)
    assert receiver.got == red(3)
    assert sender.outcomes == {}


def test_it_is_dropped_when_the_last_receiver_leaves() -> None:
    node = Node()
    receiver = node.receiver()
    sender = waiting(node, red(3), settled=True)
    sender.leave()
    receiver.leave()
    assert sender.outcomes == dict.fromkeys(red(3), "dropped")
    assert not node.meeting.waiting


def test_what_was_sent_unsettled_goes_with_its_sender() -> None:
    node = Node()
    receiver = node.receiver()
    other = node.sender()
    sender = waiting(node, [colored("blue")])
    for data in red(2):
        other.transfer(data)
    other.leave()
    receiver.flow(10)
    assert receiver.got == [colored("blue")]
    sender.leave()


@pytest.mark.parametrize("kind", [DirectNode, Multicast])
def test_fifty_senders_share_ten_credits_and_nothing_is_lost(kind: type[DirectNode]) -> None:
    """Found as C8: each sends what it was granted and closes; the receiver grants ten each time."""
    node, sent = Node(kind), list[bytes]()
    receiver = node.receiver(10)
    senders = [node.sender() for _ in range(50)]
    for number, sender in enumerate(senders):
        while sender.granted:
            sent.append(sender.transfer(colored("red", 1000 * number + sender.granted), settled=True))
        sender.leave()
    while len(receiver.got) < len(sent):
        before = len(receiver.got)
        receiver.flow(10)
        assert len(receiver.got) > before
    assert Counter(receiver.got) == Counter(sent)


# -- credit


def test_who_has_used_its_share_gets_what_idle_senders_leave() -> None:
    """Found as C18: one of three messages came, and the receiver had its credit back while two waited."""
    node = Node()
    receiver, _idle, busy = node.receiver(), node.sender(), node.sender()
    receiver.flow(3)
    for data in red(3):
        busy.transfer(data)
    assert receiver.got == red(3)


@pytest.mark.parametrize("kind", [DirectNode, Multicast])
def test_senders_get_equal_shares_of_all_credit(kind: type[DirectNode]) -> None:
    node = Node(kind)
    senders = [node.sender() for _ in range(1000)]
    node.receiver(50_000)
    while node.loop.turn():
        pass
    assert {sender.granted for sender in senders} == {50}


def test_no_sender_without_credit_while_receivers_have_some() -> None:
    node = Node()
    receiver = node.receiver(7)
    senders = [node.sender() for _ in range(20)]
    for turn in range(200):
        sender = senders[turn * 7 % 20]
        if receiver.window:
            assert sender.granted
        if sender.granted:
            sender.transfer(colored("red", turn))
        if not receiver.window:
            receiver.flow(7)
    assert sum(sender.granted for sender in senders) <= 7 + 20


@pytest.mark.parametrize("where", [None, "color = 'red'"])
def test_what_nobody_takes_costs_no_credit(where: str | None) -> None:
    node = Node()
    node.receiver(4, "color = 'green'")
    senders = [node.sender() for _ in range(3)]
    for turn in range(100):
        senders[turn % 3].transfer(colored("blue", turn))
    assert all(sender.granted for sender in senders)


# -- no event walks over all links


def crowd_of_receivers(
    kind: type[DirectNode], count: int, *, filtered: bool, credit: int = 2
) -> tuple[Node, list[Wire]]:
    node = Node(kind)
    node.sender()
    where = "number >= 0 AND number <> {}" if filtered else None
    return node, [node.receiver(credit, where and where.format(-1 - number)) for number in range(count)]


def crowd_of_senders(kind: type[DirectNode], count: int, *, credit: int = 2) -> tuple[Node, list[Wire]]:
    node = Node(kind)
    node.receiver(credit * count)
    senders = [node.sender() for _ in range(count)]
    while node.loop.turn():
        pass
    return node, senders


def of_receivers(kind: type[DirectNode], count: int, event: str, filtered: bool) -> int:
    node, receivers = crowd_of_receivers(kind, count, filtered=filtered)
    chosen = receivers[count // 2]
    calls: dict[str, Callable[[], Any]] = {
        "attach": lambda: node.receiver(),
        "credit": lambda: chosen.flow(5),
        "detach": chosen.leave,
        "sender": node.sender,
    }
    return steps(calls[event])


def of_senders(kind: type[DirectNode], count: int, event: str) -> int:
    node, senders = crowd_of_senders(kind, count)
    chosen, receiver = senders[count // 2], node.meeting.receiver_endpoints[0].link
    calls: dict[str, Callable[[], Any]] = {
        "attach": node.sender,
        "credit": lambda: receiver.flow(2 * count + 1),  # type: ignore[attr-defined]
        "detach": chosen.leave,
        "message": lambda: chosen.transfer(colored("red")),
        "second": lambda: (chosen.transfer(colored("red")), chosen.transfer(colored("red"))),
    }
    return steps(calls[event])


@pytest.mark.parametrize("kind", [DirectNode, Multicast])
@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("event", ["attach", "credit", "detach", "sender"])
def test_an_event_costs_the_same_beside_four_times_as_many_receivers(
    kind: type[DirectNode], event: str, filtered: bool
) -> None:
    """Found as B5: 9,900 links held the loop for 20 s when credit was granted."""
    few, many = (of_receivers(kind, count, event, filtered) for count in (FEW, MANY))
    assert many < 1.5 * few


@pytest.mark.parametrize("kind", [DirectNode, Multicast])
@pytest.mark.parametrize("event", ["attach", "credit", "detach", "message", "second"])
def test_an_event_costs_the_same_beside_four_times_as_many_senders(kind: type[DirectNode], event: str) -> None:
    few, many = (of_senders(kind, count, event) for count in (FEW, MANY))
    assert many < 1.5 * few


def test_a_message_to_one_of_many_receivers_costs_the_same() -> None:
    def cost(count: int) -> int:
        node, _ = crowd_of_receivers(DirectNode, count, filtered=False, credit=5)
        sender: Any = node.meeting.sender_endpoints[0].link
        return steps(lambda: sender.transfer(colored("red")))

    assert cost(MANY) < 1.5 * cost(FEW)


def test_a_message_among_four_times_as_many_filters_costs_the_same() -> None:
    """Found as D9: at 1,000 filters that ask for a text a message cost 0.4 ms."""

    def cost(count: int) -> int:
        node = Node()
        for number in range(count):
            node.receiver(10, f"color = 'c{number}'")
        sender = node.sender()
        return steps(lambda: sender.transfer(colored("c7")))

    assert cost(MANY) < 1.5 * cost(FEW)


@pytest.mark.parametrize("event", ["flow", "detach of another", "message"])
def test_an_event_costs_the_same_beside_four_times_as_many_waiting_messages(event: str) -> None:
    """Found as B1: with 1,000 waiting replies every flow frame asked each of them about every receiver."""

    def cost(count: int) -> int:
        node = Node()
        for number in range(10):
            node.receiver(where=f"number = {number}")
        other = node.receiver(where="color = 'blue'")
        waiting(node, [colored("red", number % 10) for number in range(count)])
        sender = node.sender()
        other.flow(3)
        calls: dict[str, Callable[[], Any]] = {
            "flow": lambda: other.flow(5),
            "detach of another": other.leave,
            "message": lambda: sender.handler.on_transfer(b"x", colored("blue"), False),
        }
        return steps(calls[event])

    assert cost(4 * FEW) < 1.5 * cost(FEW)


def test_many_receivers_leave_at_the_cost_of_what_each_held() -> None:
    """Found as B1: closing 200 receivers with 2,000 messages waiting took 11 s of processor time."""

    def cost(count: int) -> int:
        node = Node()
        receivers = [node.receiver(where=f"number = {number}") for number in range(count)]
        waiting(node, [colored("red", number % count) for number in range(4 * count)])
        return steps(lambda: [each.leave() for each in receivers])

    assert cost(4 * 20) < 1.5 * 4 * cost(20)


def test_credit_for_very_many_senders_is_granted_in_several_turns() -> None:
    loop = Loop()
    node = Node(loop=loop)
    senders = [node.sender() for _ in range(2000)]
    whole = steps(lambda: node.receiver(10_000))
    done = [sum(sender.granted > 0 for sender in senders)]
    while True:
        whole = max(whole, steps(loop.turn))
        done.append(sum(sender.granted > 0 for sender in senders))
        if done[-1] == 2000:
            break
    assert len(done) >= 10
    assert {sender.granted for sender in senders} == {5}


def test_one_sender_is_told_of_credit_seldom() -> None:
    """A flow frame for each message would cost as much as the message."""
    node = Node()
    receiver, senders = node.receiver(1000), [node.sender() for _ in range(2)]
    grants = sum(sender.grants for sender in senders)
    for turn in range(1000):
        senders[turn % 2].transfer(colored("red", turn))
        receiver.flow(1000)
    assert sum(sender.grants for sender in senders) - grants < 20

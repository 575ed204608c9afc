"""What a transaction does for very many messages, in turns: the order stays, and nothing overtakes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.agenda import AT_ONCE, Agenda
from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Outcome
from gateway.errors import AmqpError
from gateway.transactions.acquisition import Acquisition
from gateway.transactions.transaction import Transaction

MANY = 3 * AT_ONCE
UNKNOWN, TIMEOUT = "amqp:transaction:unknown-id", "amqp:transaction:timeout"


class Loop:
    """Keeps what is scheduled for its next turn."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []

    def turn(self) -> None:
        now = self.scheduled[:]
        self.scheduled.clear()
        for each in now:
            each()

    def turns(self) -> int:
        """Take turns until nothing is left; returns their number."""
        number = 0
        while self.scheduled:
            number += 1
            self.turn()
        return number


class Message:
    """A message with an outcome, or a post that waits."""

    settled, message, open = True, (object(), 1), True

    def __init__(self, log: list[str], name: str = "") -> None:
        self.commit, self.roll_back = partial(log.append, "commit"), partial(log.append, "roll back")
        self.begin, self.give_up = partial(log.append, f"begin{name}"), partial(log.append, f"give up{name}")

    def keep(self) -> None:
        """Its link has not ended."""


class World:
    """A transaction with very many outcomes, and what becomes of it."""

    def __init__(self, retired: int = MANY) -> None:
        self.log: list[str] = []
        self.loop = Loop()
        self.transaction = Transaction(
            b"t", lambda: None, lambda: self.log.append("ended"), soon=self.loop.scheduled.append
        )
        for _ in range(retired):
            self.retire()

    def retire(self) -> None:
        retired: Any = Message(self.log)
        self.transaction.retire(retired)

    def discharge(self, *, fail: bool = False) -> None:
        self.transaction.discharge(fail=fail, then=lambda error: self.log.append(error.condition if error else "done"))


@pytest.fixture
def world() -> World:
    return World()


def test_steps_are_taken_in_order_and_few_at_once() -> None:
    loop, log = Loop(), list[int]()
    agenda = Agenda(loop.scheduled.append)

    def nested() -> None:
        log.append(-1)
        agenda.add([partial(log.append, MANY)])

    agenda.add([nested])
    assert log == [-1, MANY]
    log.clear()
    agenda.add(partial(log.append, each) for each in range(MANY - 1))
    agenda.add([nested])
    assert log == list(range(AT_ONCE))
    assert loop.turns() == 3
    assert log == [*range(MANY - 1), -1, MANY]


def test_an_error_keeps_no_other_step_from_its_turn() -> None:
    loop, log = Loop(), list[str]()
    agenda = Agenda(loop.scheduled.append)

    def fails() -> None:
        raise ValueError("unexpected")

    with pytest.raises(ValueError, match="unexpected"):
        agenda.add([partial(log.append, "before"), fails, partial(log.append, "after")])
    agenda.add([partial(log.append, "later")])
    assert log == ["before"]
    loop.turn()
    assert log == ["before", "after", "later"]


@pytest.mark.parametrize(("fail", "each"), [(False, "commit"), (True, "roll back")])
def test_a_discharge_is_answered_after_all_outcomes(world: World, fail: bool, each: str) -> None:
    world.discharge(fail=fail)
    assert world.log == [each] * (AT_ONCE - 1), "and its end was told"
    with pytest.raises(AmqpError, match="already discharged"):
        world.transaction.check()
    assert world.loop.turns() == 3
    assert world.log == [*[each] * MANY, "ended", "done"]


def test_what_comes_meanwhile_comes_too_late(world: World) -> None:
    world.discharge()
    world.discharge(fail=True)
    world.transaction.time_out()
    world.transaction.lost()
    world.loop.turns()
    assert world.log[:MANY] == ["commit"] * MANY
    assert world.log[MANY:][:3] == ["ended", "done", UNKNOWN] or world.log[MANY:][:3] == ["ended", "done", "ended"]


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction_whose_time_is_over_is_discharged_before_all_is_rolled_back(world: World, fail: bool) -> None:
    world.transaction.time_out()
    world.discharge(fail=fail)
    assert set(world.log) == {"roll back"}
    world.loop.turns()
    assert world.log.count("roll back") == MANY
    assert [each for each in world.log[MANY:] if each != "ended"] == ["done" if fail else TIMEOUT]


def test_its_controller_leaves(world: World) -> None:
    world.transaction.lost()
    assert "ended" not in world.log, "its number is limited"
    world.loop.turns()
    assert world.log[: MANY + 1] == [*["roll back"] * MANY, "ended"]


def waiting(world: World) -> Any:
    """The first of very many messages that wait."""
    first: Any = Message(world.log, " first")
    world.transaction.wait_for(first)
    for number in range(MANY):
        queued: Any = Message(world.log, f" {number}")
        world.transaction.order.add(queued, "edge")
    return first


def test_what_waits_goes_on_in_order() -> None:
    world = World(0)
    first = waiting(world)
    world.discharge()
    world.transaction.go_on(first)
    late: Any = Message(world.log, " late")
    assert world.transaction.order.waits
    world.transaction.order.add(late, "edge")
    world.loop.turns()
    assert world.log[:MANY] == [f"begin {number}" for number in range(MANY)]
    assert world.log[MANY:] == ["begin late", "ended", "done"], "it would be refused"


def test_a_rollback_while_it_goes_on() -> None:
    world = World(MANY)
    world.transaction.go_on(waiting(world))
    assert len(world.log) == AT_ONCE
    world.discharge(fail=True)
    assert not world.transaction.order.waits
    world.loop.turns()
    given_up = [f"give up {number}" for number in range(AT_ONCE, MANY)]
    assert world.log[AT_ONCE:] == [*given_up, *["roll back"] * MANY, "ended", "done"]


class Link:
    """A link that sends very many messages in a transaction, and what becomes of each."""

    acquisition, presettled, default_outcome = None, False, SETTLED
    window, sent, bytes = 2 * MANY, 0, 0

    def __init__(self, world: World) -> None:
        self.log = world.log
        self.handler = self.unsettled = self
        self.acquired: dict[int, Acquisition] = {}
        link, transactions, delivery = cast("Any", self), cast("Any", SimpleNamespace()), cast("Any", None)
        self.acquires = Acquisition(link, transactions, world.transaction)
        self.accept = partial(self.acquires.told, delivery=delivery, settled=True, outcome=ACCEPTED, txn_id=None)
        world.transaction.acquire(self, self.acquires)
        for number in range(MANY):
            self.acquires.send(b"", number, False)

    def send_with_state(self, data: bytes, state: object) -> tuple[int, object]:
        self.sent += 1
        return self.sent - 1, object()

    def settle_sent(self, number: int, delivery: object, outcome: Outcome) -> None:
        self.log.append(f"{number} {outcome.name}")

    def on_outcome(self, context: int, outcome: Outcome) -> None:
        self.log.append(f"{context} {outcome.name} at last")

    def add(self, number: int, size: int, context: int) -> None:
        """It is unsettled."""

    def take(self, number: int) -> int:
        return number

    def settle_at_once(self, delivery: object) -> None:
        """Its receiver has settled it."""

    def keep(self, size: int) -> None:
        """What is accounted for."""

    def flow_later(self) -> None:
        """Its credit is looked at."""


def test_acquired_messages_are_given_back_though_one_gets_an_outcome_meanwhile() -> None:
    """After a rollback none of them is consumed."""
    world = World(0)
    link = Link(world)
    world.discharge(fail=True)
    link.accept(MANY - 1)
    assert world.log == [f"{number} released" for number in range(AT_ONCE)]
    world.loop.turns()
    assert world.log[AT_ONCE:] == [
        *[f"{number} released" for number in range(AT_ONCE, MANY - 1)],
        f"{MANY - 1} released at last",
        "ended",
        "done",
    ]
    assert link.acquired == {}


def test_acquired_messages_are_given_back_though_their_link_ends_meanwhile() -> None:
    world = World(0)
    link = Link(world)
    world.discharge(fail=True)
    link.acquires.link_ended()
    world.loop.turns()
    assert world.log[AT_ONCE:-2] == [f"{number} released at last" for number in range(AT_ONCE, MANY)]

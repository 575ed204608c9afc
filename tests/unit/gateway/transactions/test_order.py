"""The order of the work of one transaction, part of which waits for a destination."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.agenda import Agenda
from gateway.amqp.link.transactions import WaitingPost
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.transactions import order
from gateway.transactions.order import WorkOrder
from gateway.transactions.retirements import retire_in_turn
from gateway.transactions.transaction import Transaction


class Work:
    """Logs what happens to it; `waits`: when its turn comes, it has to wait itself."""

    def __init__(self, of: WorkOrder, log: list[str], name: str, *, waits: bool = False) -> None:
        self.name = name
        self._order, self._log, self._waits = of, log, waits

    def begin(self) -> None:
        self._log.append(self.name)
        if self._waits:
            self._order.wait_for(self)

    def give_up(self) -> None:
        self._log.append(f"not {self.name}")

    def keep(self) -> None:
        self._log.append(f"keep {self.name}")


class Ends:
    """A transaction that waits for a destination, and how it ended."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.transaction = Transaction(b"t", lambda: self.log.append("started"), lambda: self.log.append("ended"))
        self.first = Work(self.transaction.order, self.log, "first")
        self.transaction.wait_for(self.first)

    def answer(self, error: AmqpError | None) -> None:
        self.log.append("done" if error is None else error.condition)

    def discharge(self, *, fail: bool = False) -> None:
        self.transaction.discharge(fail=fail, then=self.answer)


def test_work_has_its_turn_after_all_that_came_before() -> None:
    log: list[str] = []
    of = WorkOrder(Agenda())
    first, second = Work(of, log, "first"), Work(of, log, "second", waits=True)
    of.wait_for(first)
    of.add(second, "edge")
    of.discharge(lambda: log.append("discharge"))
    of.go_on(first)
    assert (log, of.waits) == (["second"], True)
    of.go_on(first)
    assert log == ["second"], "it does not wait any more"
    of.keep()
    of.go_on(second)
    assert (log, of.waits) == (["second", "keep second", "discharge"], False)


def test_too_much_work_that_waits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MAX_WAITING", 2)
    of = WorkOrder(Agenda())
    works = [Work(of, [], str(number)) for number in range(4)]
    of.wait_for(works[0])
    of.add(works[1], "edge")
    of.add(works[2], "edge")
    with pytest.raises(AmqpError) as refused:
        of.add(works[3], "edge")
    assert refused.value.condition == RESOURCE_LIMIT_EXCEEDED


def test_a_commit_waits_and_its_controller_may_leave() -> None:
    ends = Ends()
    ends.discharge()
    ends.transaction.lost()
    assert ends.log == ["started"]
    ends.transaction.go_on(ends.first)
    assert ends.log == ["started", "ended", "done"]


@pytest.mark.parametrize("how", ["discharge", "lost"])
def test_a_rollback_does_not_wait(how: str) -> None:
    ends = Ends()
    if how == "lost":
        ends.transaction.lost()
    else:
        ends.discharge(fail=True)
    assert ends.log[:3] == ["started", "not first", "ended"]
    assert ("done" in ends.log) is (how == "discharge")
    ends.transaction.go_on(ends.first)
    assert not ends.transaction.order.waits


@pytest.mark.parametrize("discharged", [False, True])
def test_the_time_of_a_transaction_limits_the_wait(discharged: bool) -> None:
    """A destination may never open; it counts from the first post, though that has reached nothing yet."""
    ends = Ends()
    if discharged:
        ends.discharge()
    ends.transaction.time_out()
    if not discharged:
        assert ends.log == ["started", "not first"]
        ends.discharge()
    assert ends.log == ["started", "not first", "ended", "amqp:transaction:timeout"]


def test_a_post_that_waits_is_accounted_for_while_its_link_does_not() -> None:
    held: list[int] = []
    post: Any = SimpleNamespace(attached=True, hold=held.append, release=lambda: held.append(0))
    waiting = WaitingPost(post, b"12345")
    waiting.keep()
    waiting.taken()
    assert held == []
    post.attached = False
    waiting.keep()
    waiting.keep()
    waiting.give_up()
    assert held == [5, -5, 0]


class Retired:
    """A message with an outcome, and what became of it."""

    def __init__(self, *, settled: bool) -> None:
        self.settled, self.open, self.log, self.message = settled, True, list[str](), (self, 1)

    def hold(self, waits: bool) -> None:
        self.log.append("held" if waits else "not held")

    def commit(self) -> None:
        self.log.append("commit")

    def roll_back(self) -> None:
        self.log.append("roll back")


def retiring(retired: Retired) -> Any:
    """The link of the message."""
    handler = SimpleNamespace(on_retire=lambda *_: retired.log.append("retired"))
    return SimpleNamespace(handler=handler, scope="edge", behind=None)


@pytest.mark.parametrize("end", ["commit", "roll back", "too many"])
def test_an_outcome_waits_for_its_turn(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else accounts for a settled message meanwhile."""
    ends, retired = Ends(), Retired(settled=True)
    if end == "too many":
        monkeypatch.setattr(order, "MAX_WAITING", 0)
    link = retiring(retired)
    retire_in_turn(ends.transaction, link, retired)  # type: ignore[arg-type]
    ends.discharge(fail=end == "roll back")
    ends.transaction.go_on(ends.first)
    wanted = {
        "commit": ["held", "not held", "retired", "commit"],
        "roll back": ["held", "not held", "roll back"],
        "too many": ["roll back"],
    }
    assert retired.log == wanted[end]
    assert ends.log[-1] == ("amqp:transaction:rollback" if end == "too many" else "done")


def test_an_unsettled_message_that_has_gone_meanwhile_fails_the_transaction() -> None:
    """Its link has ended, or it was settled outside of the transaction."""
    ends, retired = Ends(), Retired(settled=False)
    link = retiring(retired)
    retire_in_turn(ends.transaction, link, retired)  # type: ignore[arg-type]
    retired.open = False
    ends.discharge()
    ends.transaction.go_on(ends.first)
    assert "retired" not in retired.log
    assert ends.log[-1] == "amqp:transaction:rollback"

"""One transaction: its resource, its failure, and the answers to its discharge."""

from __future__ import annotations

from traceback import walk_tb
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.link.transactions import Answer
from gateway.errors import NOT_FOUND, NOT_IMPLEMENTED, AmqpError
from gateway.transactions.acquisition_states import AcquisitionEvent
from gateway.transactions.transaction import MAX_RETIREMENTS, Transaction


class Resource:
    """Says what it was told, and answers when the test does."""

    def __init__(self, title: str = "one") -> None:
        self.title = title
        self.told: list[str] = []
        self.answers: list[Answer] = []

    def begin(self, transaction: Any) -> Resource:
        self.told.append("begin")
        return self

    def commit(self, then: Answer) -> None:
        self.told.append("commit")
        self.answers.append(then)

    def roll_back(self, then: Answer) -> None:
        self.told.append("roll back")
        self.answers.append(then)


class Ends:
    """How a transaction and its discharges ended."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.transaction = Transaction(b"t", lambda: self.log.append("started"), lambda: self.log.append("ended"))

    def answer(self, error: AmqpError | None) -> None:
        self.log.append("done" if error is None else error.condition)

    def discharge(self, *, fail: bool = False) -> None:
        self.transaction.discharge(fail=fail, then=self.answer)


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction_without_work_ends_at_once(fail: bool) -> None:
    ends = Ends()
    ends.discharge(fail=fail)
    assert ends.log == ["ended", "done"]


def test_an_error_that_is_raised_for_each_message_keeps_none_of_them() -> None:
    """A client may send millions of messages in a transaction that has failed."""
    transaction = Ends().transaction
    transaction.fail(AmqpError(NOT_FOUND, "no"))
    frames = []
    for _ in range(3):
        with pytest.raises(AmqpError) as raised:
            transaction.check()
        frames.append(sum(1 for _ in walk_tb(raised.value.__traceback__)))
    assert frames[0] == frames[2]


@pytest.mark.parametrize(("fail", "told"), [(False, "commit"), (True, "roll back")])
def test_the_discharge_is_answered_when_the_resource_is_done(fail: bool, told: str) -> None:
    ends, resource = Ends(), Resource()
    assert ends.transaction.enlist(resource) is resource
    assert ends.transaction.enlist(resource) is resource
    ends.discharge(fail=fail)
    assert (ends.log, resource.told) == (["started"], ["begin", told])
    with pytest.raises(AmqpError, match="already discharged"):
        ends.transaction.check()
    ends.discharge()
    resource.answers[0](None)
    assert ends.log == ["started", "amqp:transaction:unknown-id", "ended", "done"]


def test_a_second_resource_is_refused_and_nothing_fails() -> None:
    ends, first, second = Ends(), Resource(), Resource("the other")
    ends.transaction.enlist(first)
    with pytest.raises(AmqpError, match="the other cannot be committed together") as refused:
        ends.transaction.enlist(second)
    assert refused.value.condition == NOT_IMPLEMENTED
    assert second.told == []
    ends.discharge()
    first.answers[0](None)
    assert ends.log[-1] == "done"


@pytest.mark.parametrize("fail", [False, True])
def test_a_failed_transaction_can_only_be_rolled_back(fail: bool) -> None:
    ends, resource = Ends(), Resource()
    ends.transaction.enlist(resource)
    ends.transaction.fail(AmqpError(NOT_FOUND, "no such node", info={"delivery-tag": b"7"}))
    ends.transaction.fail(AmqpError(NOT_IMPLEMENTED, "later"))
    with pytest.raises(AmqpError, match="amqp:not-found: no such node") as refused:
        ends.transaction.check()
    assert refused.value.info == {"delivery-tag": b"7"}
    ends.discharge(fail=fail)
    assert resource.told == ["begin", "roll back"]
    resource.answers[0](None)
    assert ends.log == ["started", "ended", "done" if fail else "amqp:transaction:rollback"]


@pytest.mark.parametrize("fail", [False, True])
def test_a_transaction_that_takes_too_long_is_rolled_back(fail: bool) -> None:
    ends, resource = Ends(), Resource()
    ends.transaction.enlist(resource)
    ends.transaction.time_out()
    resource.answers[0](None)
    with pytest.raises(AmqpError, match="took too long"):
        ends.transaction.check()
    ends.discharge(fail=fail)
    assert ends.log == ["started", "ended", "done" if fail else "amqp:transaction:timeout"]
    assert resource.told == ["begin", "roll back"]


def test_the_end_of_the_controller_rolls_back_but_not_a_commit_on_its_way() -> None:
    lost, committing, resources = Ends(), Ends(), [Resource(), Resource()]
    lost.transaction.enlist(resources[0])
    lost.transaction.lost()
    assert resources[0].told == ["begin", "roll back"]
    committing.transaction.enlist(resources[1])
    committing.discharge()
    committing.transaction.lost()
    resources[1].answers[0](None)
    assert resources[1].told == ["begin", "commit"]
    assert committing.log == ["started", "ended", "done"]


@pytest.mark.parametrize(("fail", "told"), [(False, "amqp:not-implemented"), (True, "done")])
def test_the_resource_may_know_the_reason_when_it_has_rolled_back(fail: bool, told: str) -> None:
    """A rollback that is asked for has succeeded all the same."""
    ends, resource = Ends(), Resource()
    ends.transaction.enlist(resource)
    ends.transaction.fail(AmqpError(NOT_FOUND, "no"))
    ends.discharge(fail=fail)
    resource.answers[0](AmqpError(NOT_IMPLEMENTED, "why"))
    assert ends.log[-1] == told


class Retired:
    """A message that was retired."""

    settled = True

    def __init__(self, log: list[str]) -> None:
        self.commit = lambda: log.append("commit")
        self.roll_back = lambda: log.append("roll back")


@pytest.mark.parametrize(("error", "told"), [(None, "commit"), (AmqpError(NOT_FOUND), "roll back")])
def test_outcomes_hold_if_the_resource_has_committed(error: AmqpError | None, told: str) -> None:
    ends, resource, log = Ends(), Resource(), list[str]()
    ends.transaction.retire(Retired(log))  # type: ignore[arg-type]
    ends.transaction.enlist(resource)
    ends.discharge()
    assert (log, ends.log) == ([], ["started"])
    resource.answers[0](error)
    assert log == [told]


def test_the_outcomes_of_a_transaction_are_limited() -> None:
    ends, log = Ends(), list[str]()
    retired: Any = Retired(log)
    for _ in range(MAX_RETIREMENTS):
        ends.transaction.retire(retired)
    with pytest.raises(AmqpError, match="at most 100000"):
        ends.transaction.retire(retired)


def test_a_link_acquires_once_in_a_transaction() -> None:
    """However often its flows name the transaction: else each would take memory until the discharge."""
    ends, link, told = Ends(), object(), list[AcquisitionEvent]()
    acquirer: Any = SimpleNamespace(notice=told.append)
    assert ends.transaction.acquirer(link) is None
    ends.transaction.acquire(link, acquirer)
    assert ends.transaction.acquirer(link) is acquirer
    assert ends.transaction.acquirer(object()) is None
    ends.discharge()
    assert told == [AcquisitionEvent.DISCHARGE, AcquisitionEvent.COMMITTED, AcquisitionEvent.FORGOTTEN]
    assert ends.transaction.acquirer(link) is None

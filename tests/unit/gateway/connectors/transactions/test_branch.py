"""A container's part of a transaction: what its answers mean, and what it means that none comes (decision 83)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Declared, Outcome, Rejected
from gateway.connectors.transactions.branch import RemoteBranch, verdict
from gateway.connectors.transactions.coordinator import CoordinatorReply, ReplyListener
from gateway.connectors.transactions.states import TRANSITIONS, BranchEvent, BranchState
from gateway.errors import INTERNAL_ERROR, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, AmqpError
from gateway.transactions.wire import Declare, Discharge, read_request
from tests.support.amqp.messages import message

LOST = AmqpError("amqp:connection:forced", "gone")


class Coordinator:
    """Keeps the requests and timers of its branch, and answers when the test does."""

    def __init__(self) -> None:
        self.branches: dict[Any, None] = {}
        self.asked: list[tuple[Declare | Discharge, ReplyListener]] = []
        self.timers: list[Any] = []
        self.failure: AmqpError | None = None
        self.result: list[str] = []
        self.branch = RemoteBranch(self, self, self.later)

    def request(self, data: bytes, then: ReplyListener) -> None:
        self.asked.append((read_request(data), then))

    def answer(self, outcome: Outcome | None = None, **more: Any) -> None:
        self.asked[-1][1](CoordinatorReply(outcome, **more))

    def later(self, seconds: float, call: Any) -> Any:
        self.timers.append(call)
        return self

    def cancel(self) -> None:
        """Nothing: a test calls only the timers that it means."""

    def enlist(self, resource: Any) -> Any:
        raise AssertionError("a branch enlists nothing")

    def fail(self, error: AmqpError) -> None:
        self.failure = self.failure or error

    def then(self, error: AmqpError | None) -> None:
        self.result.append("done" if error is None else error.condition)


class Work:
    """A piece of work that is sent, waits, or fails, as the test says."""

    def __init__(self, sent: bool = True) -> None:
        self.owner: Any = None
        self.sent, self.log = sent, list[str]()

    def send(self, txn_id: bytes) -> bool:
        self.log.append(f"sent in {txn_id.decode()}" if self.sent else "no credit")
        return self.sent

    def refuse(self, error: AmqpError) -> None:
        self.log.append(error.condition)
        self.owner.over()

    def give_up(self) -> None:
        self.log.append("given up")
        self.owner.over()


def opened(*work: Work) -> Coordinator:
    """Return the coordinator of a branch whose transaction is declared."""
    coordinator = Coordinator()
    for each in work:
        coordinator.branch.add(each)
    coordinator.answer(Declared(b"there"))
    return coordinator


def test_every_event_has_a_step_in_every_state() -> None:
    assert set(TRANSITIONS) == set(product(BranchState, BranchEvent))


def test_work_waits_for_the_declaration_and_then_for_credit() -> None:
    starved, behind = Work(sent=False), Work()
    coordinator = opened(first := Work(), starved, behind)
    assert (first.log, starved.log, behind.log) == (["sent in there"], ["no credit"], [])
    starved.sent = True
    coordinator.branch.pump()
    assert behind.log == ["sent in there"]


def test_a_commit_waits_for_all_outcomes() -> None:
    coordinator = opened(work := Work())
    coordinator.branch.commit(coordinator.then)
    assert len(coordinator.asked) == 1, "only the declare"
    work.owner.over()
    assert coordinator.asked[-1][0] == Discharge(b"there", fail=False)
    coordinator.answer(ACCEPTED)
    assert coordinator.result == ["done"]
    assert not coordinator.branches


def test_a_container_that_declares_nothing_refuses_the_work() -> None:
    """The transaction has nothing there: it can be committed."""
    coordinator = Coordinator()
    coordinator.branch.add(work := Work())
    coordinator.answer(Rejected(AmqpError(RESOURCE_LIMIT_EXCEEDED, "too many")))
    assert work.log == [RESOURCE_LIMIT_EXCEEDED]
    with pytest.raises(AmqpError, match="too many"):
        coordinator.branch.add(Work())
    coordinator.branch.commit(coordinator.then)
    assert coordinator.result == ["done"]


def test_a_rollback_before_the_declaration_is_made_up_for() -> None:
    coordinator = Coordinator()
    coordinator.branch.add(work := Work())
    coordinator.branch.roll_back(coordinator.then)
    assert (work.log, coordinator.result) == (["given up"], ["done"])
    coordinator.answer(Declared(b"there"))
    assert coordinator.asked[-1][0] == Discharge(b"there", fail=True)
    coordinator.answer(ACCEPTED)
    assert coordinator.result == ["done"]


def test_a_coordinator_that_is_lost_fails_what_is_open() -> None:
    coordinator = opened(waiting := Work(sent=False))
    coordinator.branch.lost(LOST)
    assert waiting.log == ["no credit", TRANSACTION_ROLLBACK]
    assert coordinator.failure is not None
    coordinator.branch.commit(coordinator.then)
    assert coordinator.result == [TRANSACTION_ROLLBACK]


def test_a_commit_that_is_not_answered_in_time_is_unknown() -> None:
    coordinator = opened()
    coordinator.branch.commit(coordinator.then)
    coordinator.timers[-1]()
    assert coordinator.result == [INTERNAL_ERROR]
    coordinator.answer(ACCEPTED)
    assert coordinator.result == [INTERNAL_ERROR], "a late answer changes nothing"


def test_posts_without_outcomes_in_time_are_rolled_back() -> None:
    """The container was not told to commit, so that is certain, whether it answers the rollback or not."""
    coordinator = opened(Work())
    coordinator.branch.commit(coordinator.then)
    coordinator.timers[-1]()
    assert coordinator.asked[-1][0] == Discharge(b"there", fail=True)
    assert coordinator.result == []
    coordinator.timers[-1]()
    assert coordinator.result == [TRANSACTION_ROLLBACK]


def test_a_rollback_that_is_not_answered_has_happened() -> None:
    coordinator = opened()
    coordinator.branch.roll_back(coordinator.then)
    coordinator.timers[-1]()
    assert coordinator.result == ["done"]


@pytest.mark.parametrize(
    ("reply", "meant"),
    [
        (CoordinatorReply(ACCEPTED), None),
        (CoordinatorReply(Rejected(None)), TRANSACTION_ROLLBACK),
        (CoordinatorReply(Rejected(AmqpError(NOT_IMPLEMENTED, ""))), TRANSACTION_ROLLBACK),
        (CoordinatorReply(RELEASED), TRANSACTION_ROLLBACK),
        (CoordinatorReply(FAILED), INTERNAL_ERROR),
        (CoordinatorReply(error=LOST), INTERNAL_ERROR),
        (CoordinatorReply(error=LOST, sent=False), TRANSACTION_ROLLBACK),
        (CoordinatorReply(error=LOST, alone=True), INTERNAL_ERROR),
        (CoordinatorReply(error=AmqpError(TRANSACTION_ROLLBACK, ""), alone=True), TRANSACTION_ROLLBACK),
        (CoordinatorReply(error=AmqpError(TRANSACTION_ROLLBACK, "")), INTERNAL_ERROR),
    ],
)
def test_what_an_answer_means(reply: CoordinatorReply, meant: str | None) -> None:
    """Only `accepted` is a commit; what may have been one is unknown."""
    error = verdict(reply)
    assert (error and error.condition) == meant


def test_what_is_no_request_is_none() -> None:
    with pytest.raises(AmqpError):
        read_request(message(b"x"))

"""Outcomes of messages in a transaction: those of one link that came in several reads are given together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import NOT_FOUND, AmqpError
from gateway.transactions.posts import Post, Posts, UnansweredPosts
from gateway.transactions.transaction import Transaction


class Link:
    """Keeps the outcomes and the credit that it is told to give."""

    def __init__(self) -> None:
        self.settled: list[tuple[int, str, bytes]] = []
        self.credit = self.calls = 0

    def settle_all(self, deliveries: list[int], outcome: Any) -> None:
        self.calls += 1
        self.settled += [(each, outcome.outcome.name, outcome.txn_id) for each in deliveries]

    def grant(self, credit: int) -> None:
        self.credit += credit


def transaction(txn_id: bytes) -> Transaction:
    return Transaction(txn_id, lambda: None, lambda: None)


def unanswered(of: Transaction, link: Any, first: int, count: int) -> UnansweredPosts:
    posts = Posts(of, link, [(number, b"", False) for number in range(first - 1, first + count + 1)])
    return posts.unanswered(1, count + 1)


def test_runs_of_a_link_get_their_outcomes_together() -> None:
    link, of = Link(), transaction(b"t")
    kept = unanswered(of, link, 10, 3)
    assert kept.join(unanswered(of, link, 20, 2))
    kept.accept(4)
    assert (link.calls, link.credit, kept.left) == (1, 4, 1)
    kept.release(1)
    assert link.settled == [*[(each, "accepted", b"t") for each in (10, 11, 12, 20)], (21, "released", b"t")]


def test_other_links_and_transactions_do_not_join() -> None:
    link, of = Link(), transaction(b"t")
    kept = unanswered(of, link, 1, 1)
    assert not kept.join(unanswered(of, Link(), 2, 1))
    assert not kept.join(unanswered(transaction(b"u"), link, 2, 1))
    assert kept.left == 1


@given(st.lists(st.integers(1, 9), min_size=1), st.lists(st.integers(1, 9)))
def test_any_runs_and_reports_give_each_message_one_outcome(runs: list[int], reports: list[int]) -> None:
    link, of, first = Link(), transaction(b"t"), 0
    kept = unanswered(of, link, 0, 0)
    for count in runs:
        assert kept.join(unanswered(of, link, first, count))
        first += count
    for count in reports:
        kept.accept(count)
    kept.accept(kept.left)
    assert [each for each, _, _ in link.settled] == list(range(sum(runs)))
    assert (link.credit, kept.left) == (sum(runs), 0)


@pytest.mark.parametrize("attached", [False, True])
def test_a_refusal_that_its_sender_cannot_see_fails_the_transaction(attached: bool) -> None:
    """A post may be refused after the end of its link: it waited for its destination."""
    told: list[str] = []
    link: Any = SimpleNamespace(
        open=attached,
        rejects=True,
        scope="edge",
        behind=None,
        tag=lambda _: b"7",
        settle=lambda _, outcome: told.append(outcome.outcome.name),
        grant=lambda _: None,
        detach=lambda _: None,
        message_refused=lambda _: None,
    )
    of = transaction(b"t")
    Post(of, link, 1, settled=False).refuse(AmqpError(NOT_FOUND, "no such topic"))
    assert (told, of.failure is None) == ((["rejected"], True) if attached else ([], False))


@pytest.mark.parametrize("ending", [False, True])
def test_a_message_that_is_not_taken_says_why_and_fails_the_transaction(ending: bool) -> None:
    """At the end of a drain it said that the connection had too many messages."""
    told: list[AmqpError] = []
    link: Any = SimpleNamespace(
        open=True,
        rejects=True,
        scope="edge",
        behind=None,
        engine=SimpleNamespace(refusing=True, ending=ending),
        tag=lambda _: b"7",
        settle=lambda _, outcome: told.append(outcome.outcome.error),
        grant=lambda _: None,
        message_refused=lambda _: None,
    )
    of = transaction(b"t")
    Post(of, link, 1, settled=False).pass_to(lambda post, data: pytest.fail("it was taken"), b"")
    (error,) = told
    assert of.failure is not None
    assert error.condition == ("amqp:connection:forced" if ending else "amqp:resource-limit-exceeded")
    assert ("shutting down" in error.description) is ending

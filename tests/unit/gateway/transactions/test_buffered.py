"""Messages to direct nodes in a transaction: bounded, and passed on together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Outcome
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, AmqpError
from gateway.transactions import buffered
from gateway.transactions.buffered import BufferedBranch, BufferedMessage


class Node:
    """Holds what it is given until the test gives outcomes."""

    def __init__(self) -> None:
        self.attended = True
        self.got: list[Any] = []

    def transfer(self, link: Any, delivery: Any, data: bytes, settled: bool) -> None:
        assert not settled
        self.got.append((link, delivery, data))

    def settle(self, outcome: Outcome) -> None:
        link, delivery, _ = self.got.pop(0)
        link.settle(delivery, outcome)


class Post:
    """Counts the bytes that are held for it."""

    tag, transaction = b"t", None

    def __init__(self) -> None:
        self.held, self.accepted = 0, False

    def hold(self, size: int) -> None:
        self.held += size

    def accept(self) -> None:
        self.accepted = True


ORIGIN: Any = SimpleNamespace(context=None, requester=None, scope="edge", behind=None)


def filled(node: Node, *sizes: int) -> tuple[BufferedBranch, list[Any]]:
    branch, posts = BufferedBranch(), []
    for size in sizes:
        posts.append(Post())
        branch.hold(BufferedMessage(node, ORIGIN, posts[-1], bytes(size)))
    return branch, posts


@pytest.mark.parametrize("most", ["MAX_BYTES", "MAX_MESSAGES"])
def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch, most: str) -> None:
    monkeypatch.setattr(buffered, most, 3 if most == "MAX_MESSAGES" else 5000)
    branch, posts = filled(Node(), 1000, 1000, 1000)
    with pytest.raises(AmqpError, match="discharge it earlier") as refused:
        branch.hold(BufferedMessage(Node(), ORIGIN, Post(), bytes(1000)))  # type: ignore[arg-type]
    assert refused.value.condition == RESOURCE_LIMIT_EXCEEDED
    assert all(post.accepted and post.held > 1000 for post in posts)
    answers: list[AmqpError | None] = []
    branch.roll_back(answers.append)
    assert answers == [None]
    assert [post.held for post in posts] == [0, 0, 0]


@pytest.mark.parametrize(("outcome", "condition"), [(ACCEPTED, None), (RELEASED, TRANSACTION_ROLLBACK)])
def test_the_commit_is_done_when_every_message_has_its_outcome(outcome: Outcome, condition: str | None) -> None:
    node = Node()
    branch, posts = filled(node, 1, 2, 3)
    answers: list[AmqpError | None] = []
    branch.commit(answers.append)
    assert [len(data) for _, _, data in node.got] == [1, 2, 3]
    for each in (ACCEPTED, outcome, ACCEPTED):
        assert answers == []
        node.settle(each)
    assert [error and error.condition for error in answers] == [condition]
    assert [post.held for post in posts] == [0, 0, 0]


def test_nothing_is_passed_on_if_a_node_has_no_receiver() -> None:
    attended, alone = Node(), Node()
    branch, posts = filled(attended, 1)
    post: Any = Post()
    branch.hold(BufferedMessage(alone, ORIGIN, post, b"x"))
    alone.attended = False
    answers: list[AmqpError | None] = []
    branch.commit(answers.append)
    assert (attended.got, alone.got, post.held, posts[0].held) == ([], [], 0, 0)
    assert [error and error.condition for error in answers] == [TRANSACTION_ROLLBACK]


def test_a_transaction_without_messages_is_committed_at_once() -> None:
    answers: list[AmqpError | None] = []
    BufferedBranch().commit(answers.append)
    assert answers == [None]

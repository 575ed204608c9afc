"""A destination with a post that waits for it is in use: it does not make room for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.principal import nobody
from gateway.routing import requester_limits
from gateway.routing.destination_link import Destination, DestinationLink
from gateway.routing.message_router import MessageRouter
from gateway.transactions.transaction import Transaction


class Post:
    """A message in a transaction of its own, whose link stays or has ended."""

    settled, tag = False, b""

    def __init__(self, *, attached: bool = True) -> None:
        self.attached = attached
        self.transaction = Transaction(b"t", lambda: None, lambda: None)
        self.log: list[str] = []

    def hold(self, size: int) -> None:
        self.log.append(f"hold {size}")

    def release(self) -> None:
        self.log.append("released")

    def refuse(self, error: AmqpError) -> None:
        self.log.append(error.condition)


class Node:
    """The handler of a destination, once it is open."""

    attended = True

    def __init__(self) -> None:
        self.posts: list[bytes] = []
        self.ended = False

    def on_post(self, post: Any, data: bytes) -> None:
        self.posts.append(data)

    def on_detach(self, error: AmqpError | None) -> None:
        self.ended = True

    def peer_left(self) -> None: ...


def routed() -> tuple[MessageRouter, list[DestinationLink]]:
    """A router whose messages are their addresses, and its destinations, which are not open."""
    link: Any = SimpleNamespace(
        scope="edge", user="u", name="n", context=SimpleNamespace(answer=False), requester=nobody("edge"), engine=None,
        source=None, target=SimpleNamespace(_replace=lambda **_: None), properties={}, presettled=False,
    )  # fmt: skip
    opening: list[DestinationLink] = []
    return MessageRouter(link, lambda _, data: Destination(("edge", data.decode(), ""), data, opening.append)), opening


def test_a_destination_that_opens_for_a_post_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requester_limits, "ROUTES", 1)
    router, opening = routed()
    router.on_post(Post(), b"a")
    with pytest.raises(AmqpError) as refused:
        router.on_post(Post(), b"b")
    assert refused.value.condition == RESOURCE_LIMIT_EXCEEDED
    node = Node()
    opening[0].accept(node)
    assert node.posts == [b"a"]
    router.on_post(Post(), b"b")
    assert node.ended, "it has nothing left to do"


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_destination_stays_for_its_posts_only(rolled_back: bool) -> None:
    """After the end of the link to the null target: until the node has answered, or the transaction is over."""
    router, (post, node) = (made := routed())[0], (Post(attached=False), Node())
    router.on_post(post, b"a")
    post.transaction.order.keep()
    router.on_detach(None)
    (route,) = made[1]
    assert not route.gone
    if rolled_back:
        post.transaction.lost()
        assert route.gone
    route.accept(node)
    assert (node.posts, node.ended) == ([] if rolled_back else [b"a"], True)
    assert post.log == ["hold 1", "hold -1", *(["released"] if rolled_back else [])]


def test_a_refused_attach_refuses_the_posts() -> None:
    router, opening = routed()
    posts = [Post(), Post()]
    for post in posts:
        router.on_post(post, b"a")
    opening[0].refuse(AmqpError("amqp:not-found", "no"))
    assert [post.log for post in posts] == [["amqp:not-found"]] * 2
    assert not any(post.transaction.order.waits for post in posts)

"""Messages in transactions that came before the node of their destination has answered the attach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.amqp.link.transactions import PostedMessage, WaitingPost


class OpeningPosts:
    """Those of one destination, in order: one of each transaction, in which all that follows waits behind it."""

    def __init__(self) -> None:
        self._waiting: dict[_OpeningPost, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, post: PostedMessage, data: bytes, given_up: Callable[[], None]) -> None:
        """Let a message wait; `given_up` is called if it waits no more because its transaction is rolled back."""
        waiting = _OpeningPost(self, post, data, given_up)
        self._waiting[waiting] = None
        post.transaction.wait_for(waiting)

    def answered(self, take: Callable[[PostedMessage, bytes], None]) -> None:
        """The node has answered: `take` passes each message on, or refuses it, and its transaction goes on."""
        while self._waiting:
            waiting = next(iter(self._waiting))
            del self._waiting[waiting]
            waiting.taken()
            take(waiting.post, waiting.data)
            waiting.post.transaction.go_on(waiting)

    def gave_up(self, waiting: _OpeningPost) -> None:
        """The transaction of a message is rolled back."""
        if self._waiting.pop(waiting, self) is None:
            waiting.given_up()


class _OpeningPost(WaitingPost):
    """One of them (`gateway.amqp.link.transactions.WaitingWork`)."""

    def __init__(self, posts: OpeningPosts, post: PostedMessage, data: bytes, given_up: Callable[[], None]) -> None:
        super().__init__(post, data)
        self.given_up: Final = given_up
        self._posts: Final = posts

    def give_up(self) -> None:
        """See `WaitingWork`."""
        super().give_up()
        self._posts.gave_up(self)

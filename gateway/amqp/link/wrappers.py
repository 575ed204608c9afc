"""Handlers around the handler of a node: they pass on every call that a subclass does not handle itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from gateway.amqp.link.handlers import (
    BatchOutgoing,
    Incoming,
    LinkHandler,
    SendContext,
    takes_batches,
)
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.transactions import Enlisting, PostedMessage, PostedMessages, Retirement
from gateway.errors import AmqpError

Inner = TypeVar("Inner", bound=Incoming)


class HandlerWrapper:
    """The calls that handlers of both directions have."""

    def __init__(self, handler: LinkHandler) -> None:
        self._inner: Final = handler

    def takes_batches(self) -> bool:
        """As the inner handler does."""
        return takes_batches(self._inner)

    def policy_changed(self, verdict: Callable[..., AmqpError | None]) -> None:
        self._inner.policy_changed(verdict)

    def on_detach(self, error: AmqpError | None) -> None:
        self._inner.on_detach(error)


class IncomingWrapper(HandlerWrapper, Generic[Inner]):
    """A handler around one of incoming messages; a subclass has `on_transfer`, and `on_transfers` if it takes batches.

    `Inner`: `BatchIncoming` if `on_transfers` of the inner handler may be called, which is so only if it takes batches.
    """

    def __init__(self, handler: Inner) -> None:
        super().__init__(handler)
        self._handler: Final = handler

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        self._handler.on_post(post, data)

    def on_posts(self, posts: PostedMessages) -> None:
        posts.one_by_one(self.on_post)

    @property
    def attended(self) -> bool:
        return self._handler.attended

    def give_back(self) -> None:
        self._handler.give_back()

    def peer_left(self) -> None:
        self._handler.peer_left()


class OutgoingWrapper(HandlerWrapper):
    """A handler around one of outgoing messages."""

    def __init__(self, handler: BatchOutgoing) -> None:
        """`on_accepted` of `handler` is called only if it takes batches."""
        super().__init__(handler)
        self._handler: Final = handler

    def on_credit(self) -> None:
        self._handler.on_credit()

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        self._handler.on_outcome(context, outcome)

    @property
    def owes_outcomes(self) -> bool:
        return self._handler.owes_outcomes

    def on_accepted(self, contexts: list[SendContext]) -> None:
        self._handler.on_accepted(contexts)

    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        self._handler.on_retire(transaction, retirement)

    def on_acquire(self, transaction: Enlisting) -> None:
        self._handler.on_acquire(transaction)

    def positions(self) -> Mapping[int, int]:
        return self._handler.positions()

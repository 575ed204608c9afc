"""Spans of messages that are sent in transactions: from the transfer to the end of the transaction.

A message that the node refuses or releases has its outcome at once. The others have that of their transaction. The
declaration and the discharge of a transaction carry no trace context, and have no spans of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.transactions import Enlisting, PostedMessage

REJECTED: Final = "rejected"
ROLLED_BACK: Final = "rolled-back"
EndSpan = Callable[[str, str | None], None]
"""Ends a span with its outcome and the condition of an error; called once."""


class TracedPost:
    """A message in a transaction (`PostedMessage`), whose span ends with its outcome."""

    def __init__(self, post: PostedMessage, end: EndSpan) -> None:
        self._post: Final = post
        self._end: EndSpan | None = end

    @property
    def transaction(self) -> Enlisting:
        return self._post.transaction

    @property
    def behind(self) -> str | None:
        return self._post.behind

    @behind.setter
    def behind(self, behind: str | None) -> None:
        self._post.behind = behind

    @property
    def settled(self) -> bool:
        return self._post.settled

    @property
    def tag(self) -> bytes:
        return self._post.tag

    @property
    def attached(self) -> bool:
        return self._post.attached

    def hold(self, size: int) -> None:
        self._post.hold(size)

    def accept(self) -> None:
        self._post.accept()

    def release(self) -> None:
        self.end(RELEASED.name)
        self._post.release()

    def refuse(self, error: AmqpError) -> None:
        self.end(REJECTED, error.condition)
        self._post.refuse(error)

    def discharged(self, committed: bool) -> None:
        """The transaction has ended."""
        self.end(ROLLED_BACK if not committed else SETTLED.name if self.settled else ACCEPTED.name)

    def end(self, outcome: str, condition: str | None = None) -> None:
        """End the span, unless it has ended."""
        end, self._end = self._end, None
        if end is not None:
            end(outcome, condition)

"""The gateway's link to the coordinator of a container: declare and discharge (AMQP 1.0 part 4, 4.1 to 4.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from gateway.amqp.link.handlers import Outgoing, SendContext
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.proton.proton_data import AttachReply
from gateway.errors import DETACH_FORCED, NOT_IMPLEMENTED, AmqpError, Fault

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.links.link_context import LinkContext

LOCAL_TRANSACTIONS: Final = "amqp:local-transactions"
_numbers: Final = count(1)


class CoordinatorReply(NamedTuple):
    """The result of a request: an outcome, or `error` if the link ended without one."""

    outcome: Outcome | None = None
    error: AmqpError | None = None
    sent: bool = True
    """Whether the container may have received the request."""
    alone: bool = False
    """Whether it was the only unanswered request when the link ended, so that the link's error is its answer."""


ReplyListener: TypeAlias = Callable[[CoordinatorReply], None]


class LostBranch(Protocol):
    """The part of a branch that the coordinator's link uses."""

    def lost(self, error: AmqpError) -> None:
        """Called when the coordinator's link has ended: the container rolls back undischarged transactions (4.1)."""


class RemoteCoordinator(Outgoing):
    """The handler of the link; calls `missing` if the container refuses the link, and `ended` when it has ended."""

    def __init__(
        self, engine: Engine, context: LinkContext, missing: Callable[[AmqpError], None], ended: Callable[[], None]
    ) -> None:
        self._missing: Final = missing
        self._ended: Final = ended
        self._context: Final = context
        self._waiting: deque[tuple[bytes, ReplyListener]] = deque()
        """Requests waiting for the attach or for credit."""
        self.branches: Final[dict[LostBranch, None]] = {}
        self._attaching = True
        self._link: Final = engine.attach(f"coordinator-{next(_numbers)}", incoming=False)
        self._link.request(self, AttachReply(coordinator=True, capabilities=(LOCAL_TRANSACTIONS,)))

    @property
    def scope(self) -> str:
        """The scope of the container."""
        return self._link.scope

    def request(self, data: bytes, then: ReplyListener) -> None:
        """Send a request when there is credit; `then` is called with the result."""
        self._waiting.append((data, then))
        self._send()

    def _send(self) -> None:
        while self._waiting and self._link.open and self._link.credit > 0:
            data, then = self._waiting.popleft()
            self._link.send(data, then)

    # -- from the link

    def on_attached(self, link: Link) -> None:
        """The container has attached its coordinator."""
        self._attaching, link.context = False, self._context

    def on_refused(self, error: AmqpError) -> None:
        """The container has no coordinator, or does not let the gateway use it."""
        text = f"the container behind this address takes no part in transactions: {error.condition}"
        self._attaching = False
        self._missing(AmqpError(NOT_IMPLEMENTED, text, fault=Fault.BACKEND))
        self.on_detach(AmqpError(NOT_IMPLEMENTED, text, fault=Fault.BACKEND))

    def on_credit(self) -> None:
        self._send()

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        cast(ReplyListener, context)(CoordinatorReply(outcome))

    def closed(self) -> None:
        """The connection has ended: nobody else says so of a link whose attach was not answered."""
        if self._attaching:
            self._attaching = False
            self.on_detach(None)

    def on_detach(self, error: AmqpError | None) -> None:
        """Answer all waiting requests; then report the transactions that the container rolls back."""
        reason = error or AmqpError(DETACH_FORCED, "the link to its coordinator has ended", fault=Fault.BACKEND)
        self._ended()
        waiting, self._waiting = self._waiting, deque()
        sent = self._link.take_unsettled()
        for context in sent:
            cast(ReplyListener, context)(CoordinatorReply(error=reason, alone=len(sent) == 1))
        for _, then in waiting:
            then(CoordinatorReply(error=reason, sent=False))
        for branch in list(self.branches):
            branch.lost(reason)
        self.branches.clear()

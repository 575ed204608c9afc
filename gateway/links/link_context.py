"""The context of a link: its scope, and how reply addresses of its messages are treated (RA 2.2).

The target of a sender announces whether annotations on requests are honoured; that stays true for the life of the link,
whichever receivers attach later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.amqp.message.response_support import SUPPORTED

if TYPE_CHECKING:
    from gateway.amqp.proton.proton_data import TerminusFields

RESPONSE_ADDRESS_SUPPORTED: Final = SUPPORTED


class PairSender(Protocol):
    """The sending half of a link pair."""

    @property
    def open(self) -> bool: ...
    @property
    def target(self) -> TerminusFields: ...


class Pair:
    """The shared state of the halves of a link pair (`gateway.nodes.pairs`).

    `address` is that of the half that receives responses; None while it is not attached.
    """

    __slots__ = ("__weakref__", "address", "responder", "sender")

    def __init__(self) -> None:
        self.address: str | None = None
        self.sender: PairSender | None = None
        """Its sending half; ignored if it is not open, because a new session may have taken the place of its
        session."""
        self.responder = False
        """Whether its receiving half consumes requests."""


class ReplyAddress(Protocol):
    """The address for responses of the container behind a connector (`gateway.connectors.reply_queue`)."""

    @property
    def name(self) -> str:
        """The connector's name in the policy."""

    @property
    def address(self) -> str | None:
        """An address of that container; None: it uses `$replies.<scope>` of this gateway."""

    @property
    def correlation(self) -> bool:
        """Whether rewritten requests have a new correlation-id, too (`replies.ids`)."""


class LinkContext(NamedTuple):
    """The scope of a link's messages, and how their reply addresses are treated.

    `announces`: its target announced `response-address-supported`; `pair`: the meaning of `$me` on this link.
    """

    scope: str
    replies: str
    announces: bool = False
    pair: Pair | None = None
    answer: bool = False
    """The messages are responses: their correlation-id quotes an id of their destination."""
    reply_address: ReplyAddress | None = None
    """The address for responses to requests that leave through a connector."""
    uses: int | None = None
    """Maximum number of responses to each request; None: no limit."""


_cached: Final = cache(LinkContext)


def link_context(
    scope: str,
    replies: str = "auto",
    announces: bool = False,
    pair: Pair | None = None,
    answer: bool = False,
    uses: int | None = None,
) -> LinkContext:
    """The context with these values. It is cached, because contexts are compared by identity for each message."""
    made: Callable[..., LinkContext] = _cached if pair is None else LinkContext
    return made(scope, replies, announces, pair, answer, None, uses)


class HasContext(Protocol):
    """A link, or a node of the gateway that messages come from."""

    @property
    def context(self) -> LinkContext: ...


class MutableContext(Protocol):
    """A link whose context can be set."""

    context: LinkContext


def announced_capabilities(link: MutableContext, announces: bool) -> tuple[str, ...]:
    """The capabilities that the target of `link` announces; its context records them."""
    if link.context.announces is not announces:
        own = link.context
        link.context = link_context(own.scope, own.replies, announces, own.pair, own.answer, own.uses)
    return (RESPONSE_ADDRESS_SUPPORTED,) if announces else ()

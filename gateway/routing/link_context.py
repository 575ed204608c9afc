"""Where a link's messages come from or go to, and what its target announces (RA 2.2).

A sender learns from its target whether annotations on its requests do what they say there; what was announced
stays true for the life of the link, whoever else attaches to the node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.amqp.message.response_support import SUPPORTED

if TYPE_CHECKING:
    from gateway.amqp.engine.proton_data import TerminusFields

RESPONSE_ADDRESS_SUPPORTED: Final = SUPPORTED


class PairSender(Protocol):
    """The sending half of a link pair."""

    @property
    def open(self) -> bool: ...
    @property
    def target(self) -> TerminusFields: ...


class Pair:
    """What the halves of a link pair share (`gateway.nodes.pairs`).

    `address` is that of the half that takes responses, None while it is not there.
    """

    __slots__ = ("__weakref__", "address", "responder", "sender")

    def __init__(self) -> None:
        self.address: str | None = None
        self.sender: PairSender | None = None
        """Its sending half; one that is not open counts for nothing: a new session may be where its session was."""
        self.responder = False
        """Its receiving half consumes requests."""


class ReplyAddress(Protocol):
    """Where responses from the container behind a connector are taken (`gateway.connectors.reply_queue`)."""

    @property
    def name(self) -> str:
        """What the policy calls the connector."""

    @property
    def address(self) -> str | None:
        """An address of that container; None: it reaches `$replies.<scope>` of this gateway."""

    @property
    def correlation(self) -> bool:
        """Whether rewritten requests have a new correlation-id, too (`replies.ids`)."""


class LinkContext(NamedTuple):
    """Where messages of a link come from or go to, and what is done with their reply addresses.

    `announces` says that its target announced `response-address-supported`; `pair` is what `$me` means here.
    """

    scope: str
    replies: str
    announces: bool = False
    pair: Pair | None = None
    answer: bool = False
    """The messages are responses themselves: what their correlation-id quotes is known where they go."""
    reply_address: ReplyAddress | None = None
    """Where a connector takes responses, for requests that leave through it."""
    uses: int | None = None
    """How many responses each request may have; None: any number."""


_cached: Final = cache(LinkContext)


def link_context(
    scope: str,
    replies: str = "auto",
    announces: bool = False,
    pair: Pair | None = None,
    answer: bool = False,
    uses: int | None = None,
) -> LinkContext:
    """The one context of these words: messages compare it by identity; there are as many as a policy has words."""
    made: Callable[..., LinkContext] = _cached if pair is None else LinkContext
    return made(scope, replies, announces, pair, answer, None, uses)


class HasContext(Protocol):
    """A link, or a node of our own that messages come from."""

    @property
    def context(self) -> LinkContext: ...


class MutableContext(Protocol):
    """A link whose context may still be decided."""

    context: LinkContext


def announced_capabilities(link: MutableContext, announces: bool) -> tuple[str, ...]:
    """What the target of `link` announces; the link remembers it for its messages."""
    if link.context.announces is not announces:
        own = link.context
        link.context = link_context(own.scope, own.replies, announces, own.pair, own.answer, own.uses)
    return (RESPONSE_ADDRESS_SUPPORTED,) if announces else ()

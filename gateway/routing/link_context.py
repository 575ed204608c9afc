"""Where a link's messages come from or go to, and what its target announces (RA 2.2).

A sender learns from its target whether annotations on its requests do what they say there; what was announced
stays true for the life of the link, whoever else attaches to the node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gateway.amqp.message.response_annotations import SUPPORTED

if TYPE_CHECKING:
    from gateway.nodes.link_pairs import Pair

RESPONSE_ADDRESS_SUPPORTED: Final = SUPPORTED


class ReplyAddress(Protocol):
    """Where responses from the container behind a connector are taken (`homecoming`)."""

    @property
    def name(self) -> str:
        """What the policy calls the connector."""

    @property
    def address(self) -> str | None:
        """An address of that container; None: it reaches `$replies.<scope>` of this gateway."""

    @property
    def annotates(self) -> bool:
        """Whether its targets are believed when they announce that they support annotations."""

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
    home: ReplyAddress | None = None
    """Where a connector takes responses, for requests that leave through it."""
    uses: int | None = None
    """How many responses each request may have; None: any number."""


_way: Final = cache(LinkContext)


def way(
    scope: str,
    replies: str = "auto",
    announces: bool = False,
    pair: Pair | None = None,
    answer: bool = False,
    uses: int | None = None,
) -> LinkContext:
    """The one `Way` of these words: the per-message path compares by identity; as many as a policy has words."""
    made: Callable[..., LinkContext] = _way if pair is None else LinkContext
    return made(scope, replies, announces, pair, answer, None, uses)


def announcing(link: Any, announces: bool) -> tuple[str, ...]:
    """What the target of `link` announces; the link remembers it for its messages."""
    if link.way is not None and link.way.announces is not announces:
        own = link.way
        link.way = way(own.scope, own.replies, announces, own.pair, own.answer, own.uses)
    return (RESPONSE_ADDRESS_SUPPORTED,) if announces else ()

"""Requests with a cookie on their way out of a Kafka topic, to whoever reads it over AMQP (X-5, KM-22; RA 2.2, 2.5).

The topic has the message as it was sent and the annotations beside it. A reader whose target announced
`response-address-supported` gets both; for any other the request is rewritten, as at a direct node. In another scope,
behind a relay, it is annotated or rewritten anew. Who may write to the topic may write such annotations, and nobody
knows who did: what would be answered where not everybody may be is shown without them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gateway.amqp.message.hop import without
from gateway.amqp.message.response_support import annotated
from gateway.errors import AmqpError
from gateway.principal import nobody
from gateway.response.annotations import REQUEST_ANNOTATIONS
from gateway.routing.cookie_offload import CookieOffload
from gateway.routing.link_context import LinkContext, link_context
from gateway.routing.reply_rights import permit

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver
    from gateway.nodes.link import MessageTarget, Transform

_AGAIN: Final = 1.0
"""Seconds until a cookie that shared state could not keep is offered to it again."""


class TopicEvent(Protocol):
    """A message of a topic, and its place there."""

    @property
    def data(self) -> bytes: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


class _Topic(NamedTuple):
    """The topic as the sender of what is read of it."""

    context: LinkContext


class TopicRequests:
    """What becomes of such requests for one reader of a topic of `scope`."""

    def __init__(self, scope: Resolver, link: MessageTarget) -> None:
        self._scope: Final = scope
        self._link: Final = link
        self._topic: Final = _Topic(link_context(scope.name, announces=True))
        self._crossing: tuple[Any, Transform | None] = (None, None)
        self._kept: Final[dict[tuple[int, int], bytes]] = {}
        """Messages whose cookies had to be kept first, by partition and offset; one of a partition at most."""

    def __call__(self, event: TopicEvent, again: Callable[[], None]) -> bytes | None:
        """The message as the reader gets it; None: not yet, `again` is called when there is an answer."""
        data, place = event.data, (event.partition, event.offset)
        if not annotated(data):
            return data
        if (kept := self._kept.pop(place, None)) is not None:
            return kept
        try:
            crossing = self._crossed()
            return data if crossing is None else crossing(data)
        except AmqpError:
            return without(data, REQUEST_ANNOTATIONS)
        except CookieOffload as wait:
            known = partial(self._known, place, wait.data, again)
            if wait.kept is None:
                wait.on_persisted(known)
            else:
                known(wait.kept)
            return None

    def _known(self, place: tuple[int, int], crossed: bytes, again: Callable[[], None], kept: bool) -> None:
        """Only with its cookie kept may it go; a log cannot take it back, so it is tried until it is."""
        if kept:
            self._kept[place] = crossed
            again()
        else:
            self._scope.context.waits.later(_AGAIN, again)

    def _crossed(self) -> Transform | None:
        """How they change; decided anew when a reload has made new crossings."""
        transforms = self._scope.context.transforms
        if self._crossing[0] is not transforms:
            right = permit(self._scope, nobody(self._scope.name))
            self._crossing = (transforms, transforms.transform_for(self._topic, self._link, right))
        return self._crossing[1]

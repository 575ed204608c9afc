"""Annotated requests in a Kafka topic, for readers over AMQP (X-5, KM-22; RA 2.2, 2.5).

The topic stores the message as it was sent, and its annotations beside it. A reader whose target announced
`response-address-supported` gets both; for any other reader the request is rewritten, as at a direct node. For a reader
in another scope, behind a relay, it is annotated or rewritten again. Everybody who may write to the topic can write
such annotations, so they are removed if their reply address is not one that everybody may use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from gateway.amqp.message.hop import without
from gateway.amqp.message.response_support import annotated
from gateway.errors import AmqpError
from gateway.links.link_context import LinkContext, link_context
from gateway.principal import nobody
from gateway.response.annotations import REQUEST_ANNOTATIONS
from gateway.routing.cookie_offload import CookieOffload
from gateway.routing.reply_rights import permit

if TYPE_CHECKING:
    from gateway.links.link import MessageTarget, Transform
    from gateway.nodes.base import Resolver

_STORE_AGAIN: Final = 1.0
"""Seconds until a cookie that could not be stored in shared state is stored again."""


class TopicEvent(Protocol):
    """A message of a topic, with its partition and offset."""

    @property
    def data(self) -> bytes: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


class _Topic(NamedTuple):
    """The topic as the origin of its messages."""

    context: LinkContext


class TopicRequests:
    """Transforms annotated requests for one reader of a topic of `scope`."""

    def __init__(self, scope: Resolver, link: MessageTarget) -> None:
        self._scope: Final = scope
        self._link: Final = link
        self._topic: Final = _Topic(link_context(scope.name, announces=True))
        self._cached: tuple[Any, Transform | None] = (None, None)
        self._transformed: Final[dict[tuple[int, int], bytes]] = {}
        """Transformed messages whose cookies had to be stored first, by partition and offset; at most one per
        partition."""

    def __call__(self, event: TopicEvent, again: Callable[[], None]) -> bytes | None:
        """The message for the reader; None: its cookie is being stored, and `again` is called afterwards."""
        data, place = event.data, (event.partition, event.offset)
        if not annotated(data):
            return data
        if (kept := self._transformed.pop(place, None)) is not None:
            return kept
        try:
            crossing = self._transform()
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
        """Keep the message for `again`; if its cookie could not be stored, try later: a log cannot skip a message."""
        if kept:
            self._transformed[place] = crossed
            again()
        else:
            self._scope.context.waits.later(_STORE_AGAIN, again)

    def _transform(self) -> Transform | None:
        """The transform of requests; decided again after a reload."""
        transforms = self._scope.context.transforms
        if self._cached[0] is not transforms:
            right = permit(self._scope, nobody(self._scope.name))
            self._cached = (transforms, transforms.transform_for(self._topic, self._link, right))
        return self._cached[1]

"""The links of one connection: attached, answered, refused, ended (AMQP 1.0 part 2, 2.6.3 to 2.6.6).

Part of the engine. A link that was refused, or that we have detached, stays here until the peer detaches it too;
what still arrives on it is dropped, for nothing else would take it out of proton.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from cproton_ffi import lib

from gateway.amqp import pndata
from gateway.amqp.asked import Asked
from gateway.amqp.link import Link, sized
from gateway.amqp.link_base import Left
from gateway.amqp.outcomes import said_in
from gateway.errors import INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, AmqpError, quoted
from gateway.held.accounts import LINK

if TYPE_CHECKING:
    from gateway.amqp.engine import Engine
    from gateway.amqp.engine_config import Owner

_REFUSED: Final = 100
"""Refused links that any peer may leave without its own detach; more than that, and its limit of links, end it."""
SLICE: Final = 20
"""Links of a connection that is gone whose nodes hear of it before others have their turn of the loop."""
_USUAL: Final = 1024
"""Bytes of an attach that count as nothing beside what every link takes."""
_COPIES: Final = 4
"""Of what an attach says, in proton and here."""
Soon = Callable[[Callable[[], None]], Any]
"""Calls a function in the next turn of the loop."""
_DURABLE: Final = 2
"""The highest terminus-durability (3.5.5)."""


class Links:
    """`live` holds the links that nodes know, by proton's pointer."""

    def __init__(self, engine: Engine, owner: Owner) -> None:
        self._engine: Final = engine
        self._owner: Final = owner
        self.live: Final[dict[Any, Link]] = {}
        self._refused: Final[dict[Any, Link]] = {}
        self._of_session: Final[dict[Any, dict[Any, None]]] = {}
        self._large: Final[dict[Any, int]] = {}
        self._bytes = 0
        """Of attaches that are larger than is usual, and together."""
        self._ending: Final[deque[Link]] = deque()
        self._then: Callable[[], None] | None = None

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self.live.values()))

    @property
    def count(self) -> int:
        """How many there are, refused ones included, and for large attaches as many as would take their memory."""
        return len(self.live) + len(self._refused) + _COPIES * self._bytes // LINK

    def clear(self) -> None:
        """Let go of all of them: the connection is gone."""
        self.live.clear()
        self._refused.clear()
        self._of_session.clear()
        self._large.clear()
        self._bytes = 0

    # -- attach

    def add(self, link: Link) -> None:
        """A link of ours, or one that the peer asks for and is not refused at once."""
        self._keep(self.live, link)

    def _keep(self, where: dict[Any, Link], link: Link) -> None:
        where[link.ptr] = link
        self._of_session.setdefault(link.session, {})[link.ptr] = None

    def opened(self, pointer: Any, asked: Asked) -> None:
        """The peer's attach: its request, for what it `asked`, or its answer to ours."""
        if (link := self.live.get(pointer)) is not None:
            _answered(link)
            return
        link = Link(self._engine, pointer)
        if asked.size > _USUAL:
            self._large[pointer] = asked.size
            self._bytes += asked.size
        sized(link)
        self._engine.attached(link)
        link.unsaid = said_in(asked.default, self._engine.peer.scope)
        if (unwelcome := self._unwelcome(link, asked.address)) is not None:
            self._keep(self._refused, link)
            link.refuse(unwelcome)
            return
        self.add(link)
        try:
            self._owner.link_requested(link)
        except AmqpError as error:
            link.refuse(error)

    def _unwelcome(self, link: Link, asked: str | None) -> AmqpError | None:
        limit = self._engine.config.max_links
        if len(self._refused) >= max(limit, _REFUSED):
            text = f"{len(self._refused)} links were refused and are not detached: answer each detach with one"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        if asked is not None and "\0" in asked:  # proton knows the address only up to there
            return AmqpError(NOT_FOUND, f"{quoted(asked)}: no node has this address")
        if (durable := max(link.source.durable, link.target.durable)) > _DURABLE:
            text = f"there is no terminus-durability {durable}: 0 none, 1 configuration, 2 unsettled-state"
            return AmqpError(INVALID_FIELD, text, info={"field": "durable"})
        if len(self.live) >= limit:
            return AmqpError(RESOURCE_LIMIT_EXCEEDED, f"at most {limit} links a connection")
        return None

    # -- end

    def closed(self, pointer: Any, left: Left) -> None:
        """The peer's detach; a terminus that stays is detached without being closed (AMQP 2.6.3)."""
        error = pndata.read_condition(lib.pn_link_remote_condition(pointer), self._engine.peer.scope)
        self._of_session.get(lib.pn_link_session(pointer), {}).pop(pointer, None)
        link = self.live.pop(pointer, None)
        if link is not None:
            self._engine.detached(link)
        keeps = link is not None and link.durable and left is Left.DETACHED
        (lib.pn_link_detach if keeps else lib.pn_link_close)(pointer)
        self._refused.pop(pointer, None)
        self._bytes -= self._large.pop(pointer, 0)
        if link is not None:
            self._forget(link, error, left)
        lib.pn_link_free(pointer)

    def of_session_closed(self, session: Any, error: AmqpError | None) -> None:
        """The peer's end takes the session's links with it."""
        for pointer in self._of_session.pop(session, ()):
            self._refused.pop(pointer, None)
            self._bytes -= self._large.pop(pointer, 0)
            if (link := self.live.pop(pointer, None)) is not None:
                self._forget(link, error, Left.SESSION)

    def _forget(self, link: Link, error: AmqpError | None, left: Left) -> None:
        link.gone = True
        if link.open:
            link.left = left
        if link.open or link.handler is None:
            link.ended(error)
        else:
            on_refused = getattr(link.handler, "on_refused", None)
            if on_refused is not None:
                on_refused(error or AmqpError(NOT_ALLOWED, "the peer refused the link without a reason"))
        link.take_unsettled()  # proton frees them with the link
        link.held.clear()
        self._owner.link_ended(link, link.failure or error)

    def lost(self, error: AmqpError | None, left: Left, soon: Soon | None = None) -> None:
        """The connection is gone, and every link with it; with `soon`, many end in steps."""
        links = list(self.live.values())
        for link in links:
            link.gone, link.window = True, 0
            if link.open:
                link.left = left
        self.clear()
        self._engine.receivers.clear()
        self._engine.senders.clear()
        self._ending.extend(links)
        if soon is not None and len(links) > SLICE:
            soon(lambda: self._end_some(error, soon))
        else:
            self._end_some(error, soon)

    def _end_some(self, error: AmqpError | None, soon: Soon | None) -> None:
        ending = self._ending
        try:
            for _ in range(len(ending) if soon is None else min(len(ending), SLICE)):
                link = ending.popleft()
                link.ended(error)
                link.held.clear()
                self._owner.link_ended(link, link.failure or error)
        finally:
            if ending and soon is not None:
                soon(lambda: self._end_some(error, soon))
            elif ending:  # the node of one has failed
                self._end_some(error, soon)
            elif not ending and self._then is not None:
                then, self._then = self._then, None  # steps of our close and of the lost socket may both come here
                then()

    def when_ended(self, then: Callable[[], None]) -> None:
        """Call `then` when the nodes have heard of the end of all links, or at once."""
        if self._ending:
            self._then = then
        else:
            then()

    # -- what belongs to no open link

    def stray(self, pointer: Any, delivery: Any) -> None:
        """A delivery event that is neither an outcome that is waited for nor a message for a node."""
        link = self.live.get(pointer) or self._refused.get(pointer)
        if link is None:
            return
        if link.incoming:
            link.discard()
        elif lib.pn_link_current(pointer) == delivery:
            raise AmqpError(NOT_ALLOWED, "a transfer came on a link whose receiver is its sender")


def _answered(link: Link) -> None:
    """The peer answered an attach of ours; a null terminus announces a refusal (CORE-2)."""
    link.read_attach()
    sized(link)
    if (link.source if link.incoming else link.target).present:
        link.began()
        link.handler.on_attached(link)
        link.flowed()

"""The links of one connection: attached, answered, refused, ended (AMQP 1.0 part 2, 2.6.3 to 2.6.6).

Part of the engine. A link that was refused, or that we have detached, stays here until the peer detaches it, too;
messages that still arrive on it are read from proton and dropped.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.link.attach_info import AttachInfo
from gateway.amqp.link.link import Link, sized
from gateway.amqp.link.outcomes import spoken_in
from gateway.amqp.link.state import DetachKind, LinkState
from gateway.amqp.proton import proton_data
from gateway.errors import INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, AmqpError, quoted
from gateway.held.account import LINK

if TYPE_CHECKING:
    from gateway.amqp.engine.listener import LinkListener
    from gateway.amqp.link.config import CallSoon
    from gateway.amqp.link.port import EnginePort
    from gateway.amqp.proton.handles import (
        ProtonCollector,
        ProtonConnection,
        ProtonDelivery,
        ProtonLink,
        ProtonSession,
        ProtonTransport,
    )

_REFUSED: Final = 100
"""Refused links that a peer may leave undetached; more, beyond its limit of links, end the connection."""
SLICE: Final = 20
"""Links of an ended connection or session whose nodes are notified in one turn of the loop."""
_FREED: Final = 100
"""Links that proton frees in one turn of the loop."""
_USUAL: Final = 1024
"""The weight of an attach that the fixed charge of a link covers, or of an open that that of a connection does."""
_COPIES: Final = 4
"""Copies of an attach's fields, in proton and here."""
_DELIVERY: Final = 704
"""Bytes of proton for a delivery beside its data."""
_DURABLE: Final = 2
"""The highest terminus-durability (3.5.5)."""


class LinkTable:
    """The links of one connection; `live` has those that nodes know, by proton's pointer."""

    def __init__(self, engine: EnginePort[Link], owner: LinkListener) -> None:
        self._engine = engine
        self._owner: Final = owner
        self.live: Final[dict[ProtonLink, Link]] = {}
        self._refused: Final[dict[ProtonLink, Link]] = {}
        self._of_session: Final[dict[ProtonSession, dict[ProtonLink, None]]] = {}
        self._large: Final[dict[ProtonLink, int]] = {}
        self._forsaken: Final[dict[ProtonLink, int]] = {}
        self._abandoned: Final[dict[ProtonLink, int]] = {}
        """Links of ours that we have left and the peer has not, oldest first, numbered."""
        self._abandonments = 0
        self._bytes = self._numbered = 0
        """The weight of unusually large attaches, and of such an open, in total."""
        self._ending: Final[deque[Callable[[], None]]] = deque()
        """Pending notifications of nodes about the ends of their links, and calls that follow them."""
        self._then: Callable[[], None] | None = None
        self._left: list[ProtonLink] = []
        """The links of an ended connection, to be freed."""
        self._over: Final[list[Link]] = []
        """The same as nodes know them: they are released when nothing is on its way to them any more."""

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self.live.values()))

    @property
    def count(self) -> int:
        """The number of links, refused ones included; large attaches count as several links."""
        return len(self.live) + len(self._refused) + _COPIES * self._bytes // LINK

    def clear(self) -> None:
        """Forget all links: the connection has ended."""
        self._left += itertools.chain(*self._of_session.values())
        self._over.extend(self._refused.values())
        self.live.clear()
        self._refused.clear()
        self._of_session.clear()
        self._large.clear()
        self._forsaken.clear()
        self._abandoned.clear()
        self._bytes = self._engine.forsaken = 0

    def weigh(self, size: int) -> None:
        """Charge what proton keeps of a frame of the peer, for as long as the connection or link is there."""
        self._bytes += size if size > _USUAL else 0

    # -- attach

    def add(self, link: Link) -> None:
        """Add a link of ours, or one of the peer that is not refused at once."""
        self._keep(self.live, link)

    def _keep(self, where: dict[ProtonLink, Link], link: Link) -> None:
        where[link.ptr] = link
        self._numbered += 1
        link.serial = self._numbered
        self._of_session.setdefault(link.session, {})[link.ptr] = None

    def opened(self, pointer: ProtonLink, attach: AttachInfo) -> None:
        """Handle the peer's attach: a request, with the fields `attach`, or the answer to ours."""
        if (link := self.live.get(pointer)) is not None:
            _answered(link)
            return
        link = Link(self._engine, pointer)
        if attach.size > _USUAL:
            self._large[pointer] = attach.size
            self.weigh(attach.size)
        sized(link)
        self._engine.attached(link)
        link.default_outcome = spoken_in(attach.default, self._engine.peer.scope)
        link.desired = attach.desired
        if (unwelcome := self._unwelcome(link, attach.address)) is not None:
            self._keep(self._refused, link)
            link.refuse(unwelcome)
            return
        self.add(link)
        try:
            self._owner.link_requested(link)
        except AmqpError as error:
            link.refuse(error)

    def _unwelcome(self, link: Link, address: str | None) -> AmqpError | None:
        limit = self._engine.config.max_links
        if len(self._refused) >= max(limit, _REFUSED):
            text = f"{len(self._refused)} refused links are not detached yet: answer each detach with a detach"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        if address is not None and "\0" in address:  # proton shows the address only up to a NUL
            return AmqpError(NOT_FOUND, f"{quoted(address)}: no node has this address")
        if (durable := max(link.source.durable, link.target.durable)) > _DURABLE:
            text = f"unknown terminus-durability {durable}: use 0 (none), 1 (configuration) or 2 (unsettled-state)"
            return AmqpError(INVALID_FIELD, text, info={"field": "durable"})
        if len(self.live) >= limit:
            return AmqpError(RESOURCE_LIMIT_EXCEEDED, f"link limit of this connection ({limit}) exceeded")
        return None

    # -- end

    def closed(self, pointer: ProtonLink, left: DetachKind) -> None:
        """Handle the peer's detach; without `closed` the terminus stays (AMQP 2.6.3)."""
        error = proton_data.read_condition(lib.pn_link_remote_condition(pointer), self._engine.peer.scope)
        self._of_session.get(lib.pn_link_session(pointer), {}).pop(pointer, None)
        link = self.live.pop(pointer, None)
        if link is not None:
            self._engine.detached(link)
        keeps = link is not None and link.durable and left is DetachKind.DETACHED
        (lib.pn_link_detach if keeps else lib.pn_link_close)(pointer)
        self._drop(pointer)
        if link is not None:
            self._forget(link, error, left)
        lib.pn_link_free(pointer)

    def _drop(self, pointer: ProtonLink) -> None:
        """The peer has detached the link: proton frees it."""
        if (refused := self._refused.pop(pointer, None)) is not None:
            self._engine.release(refused)
        self._bytes -= self._large.pop(pointer, 0)
        self._engine.forsaken -= self._forsaken.pop(pointer, 0)
        self._abandoned.pop(pointer, None)

    def abandon(self, link: LinkState) -> None:
        """Nobody waits any more for the peer's answer to an attach of ours, or we have detached the link."""
        if link.ptr in self.live and link.ptr not in self._abandoned:
            self._abandonments += 1
            self._abandoned[link.ptr] = self._abandonments

    def abandoned(self, most: int) -> tuple[int, int] | None:
        """The numbers of the link after the `most` oldest that were abandoned and have no answer, and of the last one.

        None: there are not so many.
        """
        if len(self._abandoned) <= most:
            return None
        return next(itertools.islice(self._abandoned.values(), most, None)), self._abandonments

    def forsake(self, link: LinkState) -> None:
        """We detach the link: proton has its messages until the peer detaches it, too, and nothing else counts them."""
        if link.attach_listener is not None:
            self.abandon(link)
        if not link.incoming and link.ptr in self.live and link.ptr not in self._forsaken:
            size = self._forsaken[link.ptr] = link.unsettled.bytes + _DELIVERY * len(link.unsettled)
            self._engine.forsaken += size

    def of_session_closed(
        self, session: ProtonSession, error: AmqpError | None, then: Callable[[], None], soon: CallSoon | None = None
    ) -> None:
        """Handle the peer's end: its links end, and `then` is called after their nodes were notified."""
        for pointer in self._of_session.pop(session, ()):
            self._drop(pointer)
            if (link := self.live.pop(pointer, None)) is not None:
                _left(link, DetachKind.SESSION)
                self._ending.append(partial(self._ended, link, error))
        self._ending.extend((then, self._engine.touch))
        self._end(soon)

    def _forget(self, link: Link, error: AmqpError | None, left: DetachKind) -> None:
        _left(link, left)
        self._ended(link, error)

    def _ended(self, link: Link, error: AmqpError | None) -> None:
        if link.open or link.handler is None:
            link.ended(error)
        elif link.attach_listener is not None:
            link.attach_listener.on_refused(
                error or AmqpError(NOT_ALLOWED, "the peer refused the link without a reason")
            )
        link.take_unsettled()  # proton frees them with the link
        link.held.clear()
        self._owner.link_ended(link, link.failure or error)
        self._engine.release(link)

    def lost(self, error: AmqpError | None, left: DetachKind, soon: CallSoon | None = None) -> None:
        """The connection has ended, and every link with it; with `soon`, many links end in several turns."""
        links = list(self.live.values())
        for link in links:
            _left(link, left)
        self.clear()
        self._over.extend(links)
        self._engine.receivers.clear()
        self._engine.senders.clear()
        self._ending.extend(partial(self._lost_one, link, error) for link in links)
        self._end(soon)

    def _lost_one(self, link: Link, error: AmqpError | None) -> None:
        link.ended(error)
        link.held.clear()
        self._owner.link_ended(link, link.failure or error)

    def _end(self, soon: CallSoon | None) -> None:
        if soon is not None and len(self._ending) > SLICE:
            soon(lambda: self._end_some(soon))
        else:
            self._end_some(None)

    def _end_some(self, soon: CallSoon | None) -> None:
        ending = self._ending
        try:
            for _ in range(len(ending) if soon is None else min(len(ending), SLICE)):
                ending.popleft()()
        finally:
            if ending and soon is not None:
                soon(lambda: self._end_some(soon))
            elif ending:  # the notification of a node has failed
                self._end_some(None)
            elif not ending and self._then is not None:
                then, self._then = self._then, None  # our close and the lost socket may both lead here
                then()

    def end_all(self) -> None:
        """Notify all nodes at once, because the session's channel is needed."""
        self._end_some(None)

    def when_ended(self, then: Callable[[], None]) -> None:
        """Call `then` after all nodes were notified, or at once."""
        if self._ending:
            self._then = then
        else:
            then()

    def free(
        self,
        transport: ProtonTransport,
        connection: ProtonConnection,
        collector: ProtonCollector,
        soon: CallSoon | None,
    ) -> None:
        """Free an ended connection: its links first, because proton's time for all at once is quadratic."""
        self.clear()
        lib.pn_transport_unbind(transport)
        self._free_some(transport, connection, collector, soon)

    def _free_some(
        self,
        transport: ProtonTransport,
        connection: ProtonConnection,
        collector: ProtonCollector,
        soon: CallSoon | None,
    ) -> None:
        while self._left:
            some, self._left = self._left[:_FREED], self._left[_FREED:]
            for pointer in some:
                lib.pn_link_free(pointer)
            while lib.pn_collector_pop(collector):  # pending events keep the links alive
                pass
            if soon is not None and self._left:
                soon(lambda: self._free_some(transport, connection, collector, soon))
                return
        lib.pn_collector_release(collector)
        lib.pn_connection_release(connection)
        for freed in (transport, connection, collector):
            lib.pn_decref(freed)
        for link in self._over:
            self._engine.release(link)
        self._over.clear()
        self._engine.forget()
        del self._engine  # nothing is called here any more

    # -- deliveries of no open link

    def unclaimed(self, pointer: ProtonLink, delivery: ProtonDelivery) -> None:
        """Handle a delivery event that is neither an expected outcome nor a message for a node."""
        link = self.live.get(pointer) or self._refused.get(pointer)
        if link is None:
            return
        if link.incoming:
            link.discard()
        elif lib.pn_link_current(pointer) == delivery:
            raise AmqpError(NOT_ALLOWED, "a transfer arrived on a link on which the peer is the receiver")


def _left(link: Link, left: DetachKind) -> None:
    """Mark a link as ended, before its node is notified."""
    link.gone, link.window = True, 0
    if link.open:
        link.left = left


def _answered(link: Link) -> None:
    """Handle the answer to an attach of ours; a null terminus announces a refusal (CORE-2)."""
    link.read_attach()
    sized(link)
    if (link.source if link.incoming else link.target).present:
        link.began()
        if link.attach_listener is not None:
            link.attach_listener.on_attached(link)
        link.flowed()

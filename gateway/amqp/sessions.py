"""The sessions of one connection, and the channels and handles that our halves take (part 2, 2.5.1, 2.6.2).

Part of the engine. proton gives each begin and attach of ours the lowest free number, when it writes them; a number is
free again when our end or detach was written. A peer that ends and begins in one write would find none free, and proton
would fall silent: so what waits is written first, and a peer that leaves us no number hears so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from cproton_ffi import lib

from gateway.amqp.performatives import MOST_HANDLES
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link_base import LinkBase

class _Handles:
    """Of one session: the links of which our half holds a handle, by address."""

    __slots__ = ("freed", "held", "highest")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.held: set[int] = set()
        self.freed = 0
        """Given up, and perhaps not yet written."""


class Sessions:
    """Which sessions there are; `write_out` writes what waits, so that numbers given up are free."""

    def __init__(self, connection: Any, transport: Any, write_out: Callable[[], None]) -> None:
        self._connection: Final = connection
        self._transport: Final = transport
        self._write_out: Final = write_out
        self._known: Final[dict[Any, _Handles]] = {}
        self._ended = 0
        self._ours: Any = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._known)

    def __contains__(self, session: Any) -> bool:
        return session in self._known

    def ours(self) -> Any:
        """The session for links of ours: begun for the first, and another where the peer takes no more links on it."""
        if self._ours is None or self._full(self._known[self._ours]):
            session = lib.pn_session(self._connection)
            self._begin(session, MOST_HANDLES)
            self._ours = session
        return self._ours

    def _full(self, handles: _Handles) -> bool:
        return len(handles.held) > handles.highest

    def begun(self, session: Any, handle_max: int) -> None:
        """The peer's begin, an answer to ours or not; raises AmqpError where no channel is left to answer on."""
        if (handles := self._known.get(session)) is not None:
            handles.highest = handle_max
        else:
            self._begin(session, handle_max)

    def _begin(self, session: Any, handle_max: int) -> None:
        highest = lib.pn_transport_get_channel_max(self._transport)
        if len(self._known) + self._ended > highest:
            self._write_out()
            self._ended = 0
        if len(self._known) > highest:
            raise AmqpError(
                RESOURCE_LIMIT_EXCEEDED, f"no channel is free for a begin of ours: the channel-max is {highest}"
            )
        self._known[session] = _Handles(handle_max)
        lib.pn_session_open(session)

    def end(self, session: Any) -> None:
        """End our half, and let go of the session."""
        del self._known[session]
        self._ended += 1
        if session == self._ours:
            self._ours = None
        lib.pn_session_close(session)
        lib.pn_session_free(session)

    def attach(self, link: LinkBase) -> None:
        """Our half will need a handle; raises AmqpError where the peer's handle-max leaves none."""
        handles = self._known[link.session]
        if len(handles.held) + handles.freed > handles.highest:
            self._write_out()
            handles.freed = 0
        if self._full(handles):
            raise AmqpError(
                RESOURCE_LIMIT_EXCEEDED,
                f"no handle is free for the answer to this attach: the session's handle-max is {handles.highest}, "
                "as its begin said",
            )
        handles.held.add(link.at)

    def detach(self, link: LinkBase) -> None:
        """Our half detaches: its handle is free when that is written."""
        handles = self._known.get(link.session)
        if handles is not None and link.at in handles.held:
            handles.held.discard(link.at)
            handles.freed += 1

"""The sessions of one connection, and the channels and handles that our halves take (part 2, 2.5.1, 2.6.2).

Part of the engine. proton assigns the lowest free number to each begin and attach of ours when it writes them; a number
is free again when our end or detach was written. If a peer ends and begins in one write, none may be free, and proton
would stop writing; or it would write the new one first. So a pending end or detach is written before a begin or attach,
and a peer that leaves us no number gets an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.engine.performatives import MOST_HANDLES
from gateway.amqp.proton.batch import address
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.state import LinkState
    from gateway.amqp.proton.handles import ProtonConnection, ProtonSession, ProtonTransport

class _Handles:
    """The links of one session whose half of ours has a handle, by address."""

    __slots__ = ("channel", "freed", "held", "highest")

    def __init__(self, channel: int | None, highest: int) -> None:
        self.channel = channel
        """The peer's channel of the session; None: its begin has not come."""
        self.highest = highest
        self.held: set[int] = set()
        self.freed = 0
        """Number of released handles whose detach may not be written yet."""


class Sessions:
    """The sessions of a connection; `write_out` writes pending output, which frees released numbers."""

    def __init__(self, connection: ProtonConnection, transport: ProtonTransport, write_out: Callable[[], None]) -> None:
        self._connection: Final = connection
        self._transport: Final = transport
        self._write_out: Final = write_out
        self._known: Final[dict[ProtonSession, _Handles]] = {}
        self.addresses: Final[dict[int, None]] = {}
        """The addresses of all sessions, for `batch.weigh`."""
        self.by_channel: Final[dict[int, ProtonSession]] = {}
        """The sessions that the peer has begun and not ended, by its channel."""
        self._ended = 0
        self._ours: Final[dict[ProtonSession, None]] = {}
        self._highest = MOST_HANDLES
        """The peer's handle-max, as it last answered a begin of ours: it is taken for that of our next session."""
        self._then: Callable[[], None] | None = None

    def __contains__(self, session: ProtonSession) -> bool:
        return session in self._known

    @property
    def full(self) -> bool:
        """Whether no channel is free."""
        return len(self._known) > int(lib.pn_transport_get_channel_max(self._transport))

    def begin(self, then: Callable[[], None]) -> None:
        """Begin a session for links of ours, and call `then` when the peer has.

        Before that it is not known how many links the peer accepts on it (2.7.2).
        """
        self._then = then
        self.ours()

    def ours(self) -> ProtonSession:
        """A session for a link of ours: one where the peer accepts another link, or else a new one."""
        found = next((each for each in self._ours if not self._full(self._known[each])), None)
        if found is None:
            found = lib.pn_session(self._connection)
            self._begin(found, None, self._highest)
            self._ours[found] = None
        return found

    def _full(self, handles: _Handles) -> bool:
        return len(handles.held) > handles.highest

    def begun(self, session: ProtonSession, channel: int, handle_max: int) -> None:
        """The peer's begin, an answer to ours or not; raises AmqpError if no channel is free for the answer."""
        self.by_channel[channel] = session
        if (handles := self._known.get(session)) is not None:
            handles.channel, handles.highest = channel, handle_max
            if session in self._ours:
                self._answered(handle_max)
        else:
            self._begin(session, channel, handle_max)

    def _answered(self, handle_max: int) -> None:
        self._highest = handle_max
        then, self._then = self._then, None
        if then is not None:
            then()

    def _begin(self, session: ProtonSession, channel: int | None, handle_max: int) -> None:
        if self._ended:
            self._write_out()
            self._ended = 0
        if self.full:
            highest = lib.pn_transport_get_channel_max(self._transport)
            raise AmqpError(
                RESOURCE_LIMIT_EXCEEDED, f"no free channel for a begin of the gateway: the channel-max is {highest}"
            )
        self._known[session] = _Handles(channel, handle_max)
        self.addresses[address(session)] = None
        lib.pn_session_open(session)

    def end(self, session: ProtonSession) -> None:
        """End our half, and forget the session."""
        handles = self._known.pop(session)
        del self.addresses[address(session)]
        if handles.channel is not None and self.by_channel.get(handles.channel) == session:
            del self.by_channel[handles.channel]
        self._ended += 1
        self._ours.pop(session, None)
        lib.pn_session_close(session)
        lib.pn_session_free(session)

    def attach(self, link: LinkState) -> None:
        """Reserve a handle for our half; raises AmqpError if the peer's handle-max leaves none."""
        handles = self._known[link.session]
        if handles.freed:
            self._write_out()
            handles.freed = 0
        if self._full(handles):
            raise AmqpError(
                RESOURCE_LIMIT_EXCEEDED,
                f"no free handle for the answer to this attach: the session's handle-max is {handles.highest}, "
                "as its begin said",
            )
        handles.held.add(link.proton_address)

    def detach(self, link: LinkState) -> None:
        """Our half detaches: its handle is free when that is written."""
        handles = self._known.get(link.session)
        if handles is not None and link.proton_address in handles.held:
            handles.held.discard(link.proton_address)
            handles.freed += 1

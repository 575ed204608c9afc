"""Flows that a peer has requested with `echo` (AMQP 1.0 part 2, 2.7.4).

Each link and session is answered at most once per write, however often the peer asked. proton has no call for these
flows; it writes one when a receiver or the window of a session has changed. The state of a sender is added to that
here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.codec.decoder import decode
from gateway.amqp.codec.encoder import encode
from gateway.amqp.codec.types import Described, Uint, Ulong
from gateway.amqp.engine.performatives import FLOW

if TYPE_CHECKING:
    from gateway.amqp.engine.output import Output
    from gateway.amqp.engine.sessions import Sessions
    from gateway.amqp.link.link import Link
    from gateway.amqp.proton.handles import ProtonSession

_HEAD: Final = struct.Struct(">IBBH")
_SESSION: Final = 4
"""The number of fields of a flow that have the state of a session."""


class Echoes:
    """The links and sessions whose state the peer has requested and not got yet."""

    def __init__(self, sessions: Sessions, output: Output) -> None:
        self._known: Final = sessions
        self._output: Final = output
        self._links: Final[dict[Link, None]] = {}
        self._sessions: Final[dict[ProtonSession, None]] = {}
        self.pending = False

    def note(self, link: Link | None, channel: int | None) -> None:
        """Note a request for the state of a link, or of the session of a channel.

        `link` None: a link without a node.
        """
        self.pending = True
        if channel is None and link is not None:
            self._links[link] = None
        elif channel is not None and (session := self._known.by_channel.get(channel)) is not None:
            self._sessions[session] = None

    def forget(self, link: Link) -> None:
        """Nobody waits for the state of `link` any more."""
        self._links.pop(link, None)

    def answer(self) -> None:
        """Write the requested flows before other output."""
        self.pending = False
        if self._links:
            links = list(self._links)
            self._links.clear()
            self._output.collect()  # from now on, each collected piece of output is one flow
            for link in links:
                if link.open:
                    self._answer(link)
        while self._sessions:
            session, _ = self._sessions.popitem()
            if session in self._known:
                _force(session)

    def _answer(self, link: Link) -> None:
        _force(link.session)
        if not link.incoming:
            self._output.collect(lambda data: _with_state(data, link))
            return
        if link.draining:
            lib.pn_link_drain(link.ptr, 0)
        else:
            lib.pn_link_flow(link.ptr, 0)
        self._output.collect()


def _force(session: ProtonSession) -> None:
    """Make proton write a flow of the session, which it does after each change of its capacity."""
    lib.pn_session_set_incoming_capacity(session, 0)


def _with_state(data: bytes, link: Link) -> bytes:
    """The flow of a session, extended by the state of a sender of ours."""
    if link.handle < 0 or not data:
        return data
    size, offset, kind, channel = _HEAD.unpack_from(data)
    flow, _ = decode(data[4 * offset : size])
    if size != len(data) or flow.descriptor != FLOW:
        return data
    # what the peer said before it heard of our last deliveries may be less than those took: none is left then (2.6.7)
    credit = max(0, lib.pn_link_credit(link.ptr) + lib.pn_link_queued(link.ptr))
    state = [Uint(link.handle), Uint(link.sent % 2**32), Uint(credit), None, bool(lib.pn_link_get_drain(link.ptr))]
    body = encode(Described(Ulong(FLOW), [*flow.value[:_SESSION], *state]))
    return _HEAD.pack(_HEAD.size + len(body), 2, kind, channel) + body

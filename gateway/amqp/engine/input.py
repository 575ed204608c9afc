"""Passes the bytes of a peer to proton, cut where a frame needs that (AMQP 1.0 part 2, 2.3).

Part of the engine. proton reads all frames of a piece before it emits events. If an end came in the same piece as its
begin, proton would forget the channel that our begin has to name; the link of a flow with `echo` is known only from the
last event of a piece; proton shows neither the properties of a flow nor text after a NUL in the error of a disposition,
and has a copy of a long state for each message. So input is cut there.

proton takes 8 or 16 KiB at once. Handling the events of a few messages costs nearly as much as of many, so events wait
for the next pieces of the same input, unless one may have control frames, which are checked piece by piece.

A short frame may make very many events, so only some are handled in one call (`Dispatcher`). What comes after waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cproton_ffi import ffi, lib

from gateway.amqp.engine.control_frames import ControlFrameInspector
from gateway.amqp.proton.batch import (
    ACQUISITION,
    BEFORE_ACQUISITION,
    BEFORE_END,
    READ_STATE,
    SPLIT_DISPOSITION,
)
from gateway.amqp.proton.handles import ProtonTransport

_MOST: Final = 32 * 1024
"""Bytes of which the events may wait: proton copies a large message again with each piece, until it is read."""
_frames: Final = lib.pn_transport_get_frames_input


class Input:
    """The input of one transport."""

    def __init__(
        self,
        transport: ProtonTransport,
        dispatch: Callable[[], bool],
        before_end: Callable[[], None],
        echo: Callable[[int, int], None],
        acquires: Callable[[bytes | None], None],
        failed: Callable[[], None],
        states: Callable[[bytes | None], None],
    ) -> None:
        """`dispatch` handles events of a piece, and returns whether some are left.

        `before_end` is called before an end, `echo` after a flow that is to be answered, with the reason (`scan`) and
        its channel; `acquires` with one that may name a transaction before its event, and with None after it.
        `failed` is called when proton reads no more, `states` with a disposition whose state is read from its frame,
        before its events, and with None after them.
        """
        self._transport: Final = transport
        self._dispatch: Final = dispatch
        self._before_end: Final = before_end
        self._echo: Final = echo
        self._acquires: Final = acquires
        self._failed: Final = failed
        self._states: Final = states
        self._room = lib.pn_transport_capacity(transport)
        self.inspector: Final = ControlFrameInspector(self._room)

    def push(self, data: bytes) -> Iterator[bool]:
        """Process bytes from the peer; yields True where so much was done that the rest should wait for its turn."""
        if self._room <= 0:
            return
        start = 0
        data, cuts = self.inspector.scanned(data)
        for position, what, channel in cuts:
            if what == SPLIT_DISPOSITION:
                self._states(self.inspector.split_disposition(data, position))
            elif what == ACQUISITION:
                self._acquires(self.inspector.frame(data, start, position))
            yield from self._push(data, start, position)
            start = position
            if what == BEFORE_END:
                self._before_end()
            elif what == READ_STATE:
                self._states(data[start : start + channel])
                yield from self._push(data, start, start + channel)
                self._states(None)
                start += channel
            elif what == SPLIT_DISPOSITION:
                self._states(None)
            elif what == ACQUISITION:
                self._acquires(None)
            elif what == BEFORE_ACQUISITION:
                continue
            elif self._room > 0:
                self._echo(what, channel)
        yield from self._push(data, start, len(data))
        if self._room > 0:
            self.inspector.pushed(data, self._room)

    def _push(self, data: bytes, position: int, end: int) -> Iterator[bool]:
        transport, inspector = self._transport, self.inspector
        start, waiting = ffi.from_buffer("char[]", data) + position, 0
        while position < end and (room := self._room) > 0:
            taken = min(room, end - position)
            before = _frames(transport) if taken == room else -1
            inspector.pushing(data, position, room, taken)
            lib.pn_transport_push(transport, start, taken)
            start, position, waiting = start + taken, position + taken, waiting + taken
            room = lib.pn_transport_capacity(transport)
            if before >= 0 and before == _frames(transport):
                inspector.grown(room)
            self._room = room
            if room < 0:
                self._failed()
            if room <= 0 or position >= end or waiting >= _MOST or inspector.each_piece:
                while self._dispatch():
                    yield True
                waiting = 0

    def stop(self) -> None:
        """Ignore further input."""
        self._room = -1

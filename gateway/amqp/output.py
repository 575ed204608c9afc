"""What the engine has to write: proton's output, taken when it is to be sent or before that, and a close of our own.

Part of the engine.
"""

from __future__ import annotations

from typing import Any, Final

from cproton_ffi import lib

from gateway.amqp import turn
from gateway.amqp.performatives import close_frame
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

_MOST: Final = 8 * 1024 * 1024
"""Bytes that may be taken before their time while the peer does not read."""


class Output:
    """The output of one transport; `trouble` says why proton writes nothing any more."""

    def __init__(self, transport: Any) -> None:
        self._transport: Final = transport
        self._at: Final = turn.address(transport)
        self._early = b""
        self._ended = False
        self.trouble: str | None = None
        turn.listen(self._at)

    def take(self) -> bytes:
        """All that is to be written now."""
        data = turn.take(self._at)
        if self._early:
            data, self._early = self._early + data, b""
        self.trouble = turn.complaint(self._at)
        return data

    def take_early(self) -> None:
        """Have proton write what waits, for a later `take`: the channels and handles it gives up are free then."""
        self._early += turn.take(self._at)
        if len(self._early) > _MOST:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "this peer sends and does not read what it is answered")

    def end(self, error: AmqpError) -> None:
        """Close the connection without proton."""
        self._early += close_frame(error)
        self._ended = True

    @property
    def finished(self) -> bool:
        """Whether nothing will be written any more."""
        return not self._early and (self._ended or bool(lib.pn_transport_pending(self._transport) < 0))

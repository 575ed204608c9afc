"""The output of an engine: that of proton, collected when or before it is sent, and closes of our own.

Part of the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from cproton_ffi import lib

from gateway.amqp.engine.performatives import close_frame
from gateway.amqp.proton import batch
from gateway.amqp.proton.transport_errors import complaint
from gateway.amqp.sasl.frames import AMQP_HEADER
from gateway.errors import FRAME_SIZE_TOO_SMALL, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.state import LinkState
    from gateway.amqp.proton.handles import ProtonTransport

_HEAD: Final = struct.Struct(">IBBH")
_CLOSE: Final = b"\x00\x53\x18"
CANNOT_GO_ON: Final = "the gateway cannot continue this connection; connect again"
_MOST: Final = 16 * 1024 * 1024
"""Bytes that may be collected early while the peer does not read; more than may be queued otherwise."""


class Output:
    """The output of one transport; `failure` is the reason why no more can be written."""

    def __init__(self, transport: ProtonTransport, tally: batch.Tally) -> None:
        """`tally` has, since the last `take`, whether proton has more to write."""
        self._transport: Final = transport
        self._tally: Final = tally
        self._at: Final = batch.address(transport)
        self.early: Final = bytearray()
        """Output of proton that was collected early."""
        self._ended = False
        self._largest = 0
        self.begun = False
        """Whether proton has an unwritten answer to a begin."""
        self._attaching: Final[dict[str, LinkState]] = {}
        self.failure: AmqpError | None = None
        batch.capture_log(self._at)

    def limit(self) -> int:
        """Use the max-frame-size of the peer's open, and return it."""
        self._largest = int(lib.pn_transport_get_remote_max_frame(self._transport))
        return self._largest

    def take(self) -> list[bytes]:
        """All output to write now, in pieces that may end within a frame."""
        pieces = [] if self._ended else self._written()
        if self.early:
            pieces.insert(0, bytes(self.early))
            self.early.clear()
        if (why := batch.take_error(self._at)) is not None and not self._ended:
            self.failure = AmqpError(INTERNAL_ERROR, CANNOT_GO_ON)
            self.failure.__cause__ = RuntimeError(complaint(why))
        if sum(map(len, pieces)) > self._largest > 0 and batch.largest_frame(pieces) > self._largest:
            pieces = [self._fitting(b"".join(pieces))]
        return pieces

    def _fitting(self, data: bytes) -> bytes:
        """The output before a control frame that is too large for the peer: proton splits only transfers (2.7.1)."""
        for start, size in _frames(data):
            if size > self._largest:
                text = f"a frame of {size} bytes exceeds the peer's max-frame-size of {self._largest}"
                self.failure = AmqpError(FRAME_SIZE_TOO_SMALL, text)
                return data[:start]
        return data

    def before_end(self) -> None:
        """Write an answer to a begin before an end is read: after it, it would not name the peer's channel (2.7.2)."""
        if self.begun:
            self.take_early()

    def collect(self, change: Callable[[bytes], bytes] | None = None) -> None:
        """Collect proton's output for a later `take`; `change` may change it."""
        data = b"".join(self._written())
        self.early.extend(data if change is None else change(data))

    def restate(self, accept: Callable[[], None], state: bytes) -> None:
        """Accept messages, and write another state instead: proton writes one frame for many that it knows."""
        self.collect()  # from now on, each disposition that is collected is of these messages
        accept()
        self.collect(lambda data: batch.restated(data, state))

    def _written(self) -> list[bytes]:
        pieces = batch.take_output(self._at, self._tally)
        self.begun = False
        if self._attaching:
            self._learn_handles(b"".join(pieces))
        return pieces

    def attaching(self, link: LinkState) -> None:
        """Learn the handle of a sender of ours from its attach, which proton writes next."""
        self._attaching[link.name] = link

    def attached(self, link: LinkState) -> None:
        """The attach of `link` is written, or never will be."""
        if self._attaching.get(link.name) is link:
            del self._attaching[link.name]

    def _learn_handles(self, data: bytes) -> None:
        found = batch.sender_attaches(data)
        for name, handle in found:  # the last one of a name counts: earlier ones have ended
            if (link := self._attaching.get(name)) is not None:
                link.handle = handle
        for name, _ in found:
            self._attaching.pop(name, None)

    def take_early(self) -> None:
        """Collect proton's output for a later `take`, which frees channels and handles."""
        self.collect()
        if len(self.early) > _MOST:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "this peer sends without reading the gateway's answers")

    def end(self, error: AmqpError) -> None:
        """Close the connection without proton, after its pending output."""
        if self.failure is None:  # otherwise only the close may follow
            self.collect()
        self.early.extend(close_frame(error))
        self._ended = True

    def reword(self, error: AmqpError) -> None:
        """Replace the error in the close that proton writes."""
        if self._ended:
            return
        self.early.extend(b"".join(batch.take_output(self._at, self._tally)))
        start = max((start for start, _ in _frames(self.early)), default=0)
        if self.early[start + _HEAD.size :].startswith(_CLOSE):
            self.early[start:] = close_frame(error)

    @property
    def finished(self) -> bool:
        """Whether nothing will be written after the last `take`."""
        return (self._ended or self._tally.ended) and not self.early


def _frames(data: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Start and size of each frame of ours, behind a header."""
    start = len(AMQP_HEADER) if data.startswith(AMQP_HEADER) else 0
    while start < len(data):
        size = _HEAD.unpack_from(data, start)[0]
        yield start, size
        start += size

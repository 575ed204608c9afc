"""The half of a link on which the peer sends: credit, transfers, outcomes (AMQP 1.0 part 2, 2.6.7 to 2.6.14)."""

from __future__ import annotations

from typing import Any, Final

from cproton_ffi import ffi, lib

from gateway.amqp import dispositions
from gateway.amqp.annotated import annotated
from gateway.amqp.link_base import BUFFER_SIZE, LinkBase
from gateway.amqp.outcomes import ACCEPTED, SETTLED, Outcome
from gateway.errors import MESSAGE_SIZE_EXCEEDED, NOT_IMPLEMENTED, TRANSFER_LIMIT_EXCEEDED, AmqpError

_ACCEPTED: Final = lib.PN_ACCEPTED
_END: Final = -1
"""What `pn_link_recv` says of a complete message with nothing left to read (PN_EOS)."""
_MOST: Final = 2**31 - 1
"""Credit that proton can count."""
_PARTIAL: Final = 128 * 1024
"""Bytes of an unfinished message that are taken out of proton, so that the session window stays open."""
# Looked up once: an attribute of `lib` costs as much as a short call, and these are called per message.
_unpack, _recv, _advance = ffi.unpack, lib.pn_link_recv, lib.pn_link_advance
_readable, _partial, _is_settled = lib.pn_delivery_readable, lib.pn_delivery_partial, lib.pn_delivery_settled
_update, _settle = lib.pn_delivery_update, lib.pn_delivery_settle
_ANNOTATED: Final = b"response-"
"""How the names of those annotations begin, and within how much of a message they are looked for first."""
_LOOKED_AT: Final = 4096
_buffer = ffi.new("char[]", BUFFER_SIZE)
"""Where proton copies a message on its way to becoming bytes; one suffices, the loop is one thread."""


class Receiving(LinkBase):
    """What a link does when the peer sends."""

    __slots__ = ()

    def grant(self, credit: int) -> None:
        """Let the peer send `credit` more messages."""
        credit = min(credit, _MOST - self._granted)
        if self.open and credit > 0 and self.engine.granting:
            self._granted += credit
            lib.pn_link_flow(self.ptr, credit)
            self.engine.touch()

    @property
    def granted(self) -> int:
        """Credit given and not yet used."""
        return self._granted

    def drain(self) -> None:
        """Ask the peer to use or give back its credit; the handler hears `on_drained`."""
        self.draining = True
        lib.pn_link_drain(self.ptr, 0)
        self.engine.touch()

    def _drain_answered(self) -> None:
        """A flow from a peer we asked to drain: done when no credit is left (2.6.7)."""
        if self.draining and lib.pn_link_credit(self.ptr) <= 0:
            self.draining = False
            lib.pn_link_drained(self.ptr)
            self._granted = 0
            self.handler.on_drained()

    def arrived(self, delivery: Any) -> None:
        """A delivery event on an incoming link: hand over the message when it is complete."""
        if not _readable(delivery):
            return
        if _partial(delivery) or self._parts is not None:
            self._arrived_in_parts(delivery)
            return
        pointer = self.ptr
        size = _recv(pointer, _buffer, BUFFER_SIZE)
        if not 0 < size <= self._at_once:
            self._unusual(delivery, size)
            return
        data = _unpack(_buffer, size)
        _advance(pointer)
        self._granted = granted = self._granted - 1
        if granted < 0:
            self._no_credit()
            return
        self.transfers += 1
        if self.unannounced and data.find(_ANNOTATED, 0, _LOOKED_AT) >= 0 and annotated(data):
            self._unsupported(delivery)
            return
        self.handler.on_transfer(delivery, data, not self._never_settled and _is_settled(delivery))

    def _unusual(self, delivery: Any, size: int) -> None:
        """More than fits the buffer or the limit, nothing at all, or aborted."""
        if size == BUFFER_SIZE:
            self._parts = bytearray(ffi.buffer(_buffer, size))
            self._arrived_in_parts(delivery)
        elif size > 0:
            self._too_large(size)
        elif size == _END:
            self._complete(delivery, b"")
        else:
            self._aborted(delivery)

    def _complete(self, delivery: Any, data: bytes) -> None:
        _advance(self.ptr)
        self._granted -= 1
        if self._granted < 0:
            self._no_credit()
            return
        self.transfers += 1
        if self.unannounced and annotated(data):
            self._unsupported(delivery)
            return
        self.handler.on_transfer(delivery, data, bool(_is_settled(delivery)))

    def _unsupported(self, delivery: Any) -> None:
        """RA-2.3-3: whoever was not told that annotations are followed must not send them."""
        text = "this target did not announce response-address-supported, and the message has its annotations"
        error = AmqpError(NOT_IMPLEMENTED, text, info={"delivery-tag": self.tag(delivery)})
        self.message_refused(error)
        self.detach(error)

    def _no_credit(self) -> None:
        self.detach(AmqpError(TRANSFER_LIMIT_EXCEEDED, "a transfer arrived without link credit"))

    def drop(self, delivery: Any) -> None:
        """A pre-settled delivery that nobody can take: counted, for its sender cannot be told."""
        self.others["dropped"] = self.others.get("dropped", 0) + 1
        self.settle(delivery, SETTLED)

    def message_refused(self, error: AmqpError) -> None:
        """One message of this link was refused: for the operator's log and counters."""
        self.engine.message_refused(self, error)  # type: ignore[arg-type]  # a `Link`, like every link

    def tag(self, delivery: Any) -> bytes:
        """The delivery's tag as it came: any bytes, not only text."""
        raw = lib.pn_delivery_tag(delivery)
        return bytes(ffi.buffer(raw.start, raw.size)) if raw.size else b""

    def odd(self, delivery: Any) -> bool:
        """Whether the message is not of the default format, where `Engine.watch_formats` was called in time."""
        return self.engine.odd(self.name, self.tag(delivery))

    def settle(self, delivery: Any, outcome: Outcome) -> None:
        """Give the peer's delivery its outcome; nothing happens when the link is gone."""
        if not self.open:
            return
        if outcome is ACCEPTED:
            _update(delivery, _ACCEPTED)
            self.accepted += 1
        else:
            dispositions.write(delivery, outcome)
            self.others[outcome.name] = self.others.get(outcome.name, 0) + 1
        _settle(delivery)
        engine = self.engine
        if not engine.dirty:
            engine.touch()

    def forget(self, delivery: Any) -> None:
        """Let go of a delivery that came settled: nothing is left to say about it."""
        _settle(delivery)

    def _arrived_in_parts(self, delivery: Any) -> None:
        """Large and unfinished messages: collected outside proton, which would copy them again and again."""
        size = lib.pn_delivery_pending(delivery)
        if lib.pn_delivery_aborted(delivery):
            self._aborted(delivery)
            return
        if self._granted <= 0:
            self._no_credit()
            return
        parts = self._parts = self._parts if self._parts is not None else bytearray()
        if self.max_message_size and len(parts) + size > self.max_message_size:
            self._too_large(len(parts) + size)
            return
        done = not lib.pn_delivery_partial(delivery)
        if size >= _PARTIAL or done:
            while size > 0 and (got := lib.pn_link_recv(self.ptr, _buffer, min(size, BUFFER_SIZE))) > 0:
                parts += ffi.buffer(_buffer, got)
                size -= got
            self.engine.touch()
        if done:
            self._parts = None
            self._complete(delivery, bytes(parts))

    def _aborted(self, delivery: Any) -> None:
        """2.6.14: an aborted delivery never happened; its credit is given back."""
        self._parts = None
        lib.pn_link_advance(self.ptr)
        lib.pn_delivery_settle(delivery)
        self._granted -= 1
        self.grant(1)

    def discard(self) -> None:
        """The link is closed on our side: take out of proton what the peer sends on it until it knows.

        What it had credit for stays unsettled, so that nothing but the detach answers it (row AT-2.2.2-7).
        """
        pointer = self.ptr
        while delivery := lib.pn_link_current(pointer):
            if lib.pn_delivery_partial(delivery) and not lib.pn_delivery_aborted(delivery):
                lib.pn_link_recv(pointer, _buffer, BUFFER_SIZE)
                return
            _advance(pointer)
            self._granted -= 1
            if self._granted < 0:  # beyond what it had credit for: not to be kept until the peer detaches
                _settle(delivery)

    def _too_large(self, size: int) -> None:
        self._parts = None
        self.detach(
            AmqpError(
                MESSAGE_SIZE_EXCEEDED,
                f"the message has at least {size} bytes, this link takes {self.max_message_size}",
            )
        )

"""The half of a link on which the peer sends: its transfers (AMQP 1.0 part 2, 2.6.8 to 2.6.14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cproton_ffi import ffi, lib

from gateway.amqp.link.port import RESUMED
from gateway.amqp.link.receiver_answers import TOO_MUCH, ReceiverAnswers
from gateway.amqp.link.state import BUFFER_SIZE
from gateway.amqp.message.bounds import ANNOTATIONS
from gateway.amqp.message.hop import may_be_annotated, only, too_many
from gateway.amqp.message.response_support import annotated
from gateway.amqp.proton import batch
from gateway.amqp.proton.handles import ProtonDelivery
from gateway.errors import (
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
)

_PARTIAL: Final = 128 * 1024
"""Bytes of an unfinished message at which they are read from proton, so that the session window stays open."""
Message = tuple[int, bytes, bool]
"""A delivery, its bytes, and whether it came settled."""
_IGNORED: Final = 10_000
"""Resumed deliveries of one connection that stay unsettled until their links end."""
_buffer = ffi.new("char[]", BUFFER_SIZE)
"""Buffer for proton's copy of a message; one is enough, because the event loop is one thread."""


class ReceiverHalf(ReceiverAnswers):
    """The half of a link on which the peer sends."""

    __slots__ = ()

    def received_all(self, messages: list[Message]) -> None:
        """Handle consecutive whole messages: nearly all of them, on the hot path."""
        if self.engine.refusing and self._refused:
            self._refuse_all(messages)
            return
        if not self.open or self._granted < len(messages) or not self._all_plain(messages):
            self._received_each(messages)
        elif self._several:
            self._granted -= len(messages)
            self.transfers += len(messages)
            self.handler.on_transfers(messages)
        else:
            self._hand_on(messages, self.handler.on_transfer)

    @property
    def _refused(self) -> bool:
        """Whether messages are refused now; not a discharge, after which less is held for the peer."""
        engine = self.engine
        return engine.refusing and (engine.ending or not self.target.coordinator)

    def _hand_on(self, messages: list[Message], on_transfer: Callable[[int, bytes, bool], None]) -> None:
        """Pass on messages that need nothing else; the node may end the link at any of them."""
        for delivery, data, settled in messages:
            if not self.open:
                return
            self._granted -= 1
            self.transfers += 1
            on_transfer(delivery, data, settled)

    def _received_each(self, messages: list[Message]) -> None:
        for delivery, data, settled in messages:
            if self.open:
                self._received(delivery, data, settled)

    def _ignore(self, delivery: int, settled: bool) -> None:
        """Ignore a resumed delivery, which is unknown here (2.7.5): grant its credit again."""
        self.engine.ignored += 1
        self.held.remove(delivery)
        if settled:
            self.forget(delivery)
        if self.engine.ignored > _IGNORED:
            text = f"{_IGNORED} resumed deliveries are not in the unsettled map of any attach"
            self.detach(self.own(AmqpError(RESOURCE_LIMIT_EXCEEDED, text)))
        else:
            self.grant(1)

    def _foreign(self, delivery: int, settled: bool) -> bool:
        """Whether a delivery is not of format 0 (FX-1-4): it is refused, because no node can represent it."""
        self.message_format = message_format = self.engine.message_format(self.name, tag := self.tag(delivery))
        if not message_format or message_format in self.engine.config.message_formats:
            return False
        self._granted -= 1
        if self._granted < 0:
            self._no_credit()
            return True
        if message_format == RESUMED:
            self._ignore(delivery, settled)
            return True
        self.transfers += 1
        text = f"the message-format is {message_format:#x}; the gateway accepts only messages of format 0"
        self._reject(delivery, settled, AmqpError(NOT_IMPLEMENTED, text, info={"delivery-tag": tag}))
        return True

    def _refuse_all(self, messages: list[Message]) -> None:
        """Refuse messages because the peer, or all peers, hold too much; it may send them again later."""
        for delivery, _, settled in messages:
            if not self.open:
                return
            self._granted -= 1
            if self._granted < 0:
                self._no_credit()
            else:
                self.transfers += 1
                self._refuse_one(delivery, settled)

    def _all_plain(self, messages: list[Message]) -> bool:
        """Whether the messages only need to be passed on."""
        return batch.all_plain(messages, self._at_once, ANNOTATIONS, not self.unannounced, not self._never_settled)

    def keep_annotations(self) -> None:
        """Leave all delivery annotations in the messages: the link ends here (3.2.2)."""
        self.understands, self.held.all_annotations = None, True

    def understood(self, data: bytes) -> bytes:
        """The message with only those delivery annotations that this link understands (3.2.2)."""
        return data if self.understands is None else only(data, self.understands)

    def _received(self, delivery: int, data: bytes, settled: bool) -> None:
        self._granted = granted = self._granted - 1
        if granted < 0:
            self._no_credit()
            return
        if len(data) > self._at_once:
            self._too_large(len(data))
            return
        self.transfers += 1
        if too_many(data):
            self._reject(delivery, settled, self._too_annotated(delivery))
            return
        if self.unannounced and may_be_annotated(data) and annotated(data):
            self._unsupported(delivery)
            return
        self.handler.on_transfer(delivery, data, settled and not self._never_settled)

    def on_partial(self, delivery: ProtonDelivery) -> None:
        """Handle a delivery that is not in a batch: one that is partial, large, empty, aborted or unchanged."""
        if not lib.pn_delivery_readable(delivery):
            return
        if lib.pn_delivery_aborted(delivery):
            self._aborted(delivery)
        elif lib.pn_delivery_partial(delivery) or self._partial_body is not None or lib.pn_delivery_pending(delivery):
            self._on_part(delivery)
        else:
            self._complete(delivery, b"")

    def _complete(self, delivery: ProtonDelivery, data: bytes) -> None:
        lib.pn_link_advance(self.ptr)
        number, settled = batch.address(delivery), bool(lib.pn_delivery_settled(delivery))
        if self._foreign(number, settled):
            return
        self._granted -= 1
        if self._granted < 0:
            self._no_credit()
            return
        self.transfers += 1
        self.held.add(number, len(data))
        if self._refused:
            self._refuse_one(number, bool(lib.pn_delivery_settled(delivery)))
            return
        if too_many(data):
            self._reject(number, settled, self._too_annotated(number))
            return
        if may_be_annotated(data):
            data = self.understood(data)
        if self.unannounced and annotated(data):
            self._unsupported(number)
            return
        self.handler.on_transfer(number, data, settled)

    def _too_annotated(self, delivery: int) -> AmqpError:
        text = f"delivery annotations may have at most {ANNOTATIONS} bytes; put long values into the message itself"
        return AmqpError(RESOURCE_LIMIT_EXCEEDED, text, info={"delivery-tag": self.tag(delivery)})

    def _unsupported(self, delivery: int) -> None:
        """Reject annotations on a link whose target did not announce support (RA-2.3-3)."""
        text = "the message has response annotations, but this target did not announce response-address-supported"
        error = self.own(AmqpError(NOT_IMPLEMENTED, text, info={"delivery-tag": self.tag(delivery)}))
        self.message_refused(error)
        self.detach(error)

    def _on_part(self, delivery: ProtonDelivery) -> None:
        """Collect large and unfinished messages outside proton, which would copy them again and again."""
        size = lib.pn_delivery_pending(delivery)
        if lib.pn_delivery_aborted(delivery):
            self._aborted(delivery)
            return
        if self._granted <= 0:
            self._no_credit()
            return
        if (parts := self._partial_body) is None:
            parts = self._partial_body = bytearray()
            self.engine.receivers.pop(self.proton_address, None)  # the rest must not be read as a whole message
        if self.max_message_size and len(parts) + size > self.max_message_size:
            self._too_large(len(parts) + size)
            return
        done = not lib.pn_delivery_partial(delivery)
        if self.engine.refusing and not done:
            self._too_much()
            return
        if size >= _PARTIAL or done:
            before = len(parts)
            while size > 0 and (got := lib.pn_link_recv(self.ptr, _buffer, min(size, BUFFER_SIZE))) > 0:
                parts += ffi.buffer(_buffer, got)
                size -= got
            self.engine.unfinished += len(parts) - before
            self.engine.touch()
        if done:
            self._whole()
            self._complete(delivery, bytes(parts))

    def _whole(self) -> None:
        """The unfinished message is complete."""
        if self._partial_body is not None:
            self.drop_partial_body()
            if self.open:
                self.engine.receivers[self.proton_address] = self.held

    def _too_much(self) -> None:
        error = self.own(AmqpError(RESOURCE_LIMIT_EXCEEDED, TOO_MUCH))
        self.message_refused(error)
        self.detach(error)

    def _aborted(self, delivery: ProtonDelivery) -> None:
        """Ignore an aborted delivery and grant its credit again (2.6.14)."""
        self._whole()
        lib.pn_link_advance(self.ptr)
        lib.pn_delivery_settle(delivery)
        self._granted -= 1
        self.grant(1)

    def _dropped(self, delivery: ProtonDelivery) -> None:
        """A message, or a part of it, is dropped because the link has ended; it may have been one of a transaction."""

    def discard(self) -> None:
        """Our half is closed: read and drop what the peer sends until it detaches.

        These messages stay unsettled, so that only the detach answers them (row AT-2.2.2-7).
        """
        while delivery := lib.pn_link_current(self.ptr):
            if not lib.pn_delivery_aborted(delivery):
                self._dropped(delivery)
            if lib.pn_delivery_partial(delivery) and not lib.pn_delivery_aborted(delivery):
                lib.pn_link_recv(self.ptr, _buffer, BUFFER_SIZE)
                return
            lib.pn_link_advance(self.ptr)
            self._granted -= 1
            if self._granted < 0 or self.engine.refusing:  # more than may be held until the peer detaches
                lib.pn_delivery_settle(delivery)

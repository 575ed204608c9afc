"""Refuses messages with an annotation that is not supported (AMQP 1.0 part 3, 3.2.10; CORE-1).

It wraps a node's handler if the policy has `strict_annotations`; other links have no such wrapper.
"""

from __future__ import annotations

from typing import Final

from gateway.amqp.link.handlers import Delivery, Incoming
from gateway.amqp.link.outcomes import Rejected
from gateway.amqp.link.receiver_link import ReceiverHalf
from gateway.amqp.link.transactions import PostedMessage
from gateway.amqp.link.wrappers import IncomingWrapper
from gateway.amqp.message.hop import may_be_annotated, only
from gateway.amqp.message.unknown_annotations import unknown_annotation
from gateway.errors import NOT_IMPLEMENTED, AmqpError


class StrictHandler(IncomingWrapper[Incoming]):
    """A wrapper of the node's handler that checks annotations."""

    def __init__(self, link: ReceiverHalf, handler: Incoming, understands: frozenset[bytes], *, detaches: bool) -> None:
        """`detaches`: such a message ends the link, as the specification demands; False: it is rejected."""
        super().__init__(handler)
        self._link: Final = link
        self._understands: Final = understands
        self._detaches: Final = detaches

    def takes_batches(self) -> bool:
        """False: each message is checked separately."""
        return False

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Check a message with all of its annotations, and pass it on or refuse it."""
        try:
            passed = self._checked(data)
        except AmqpError as error:
            error.info["delivery-tag"] = self._link.tag(delivery)
            self._refuse(delivery, settled, error)
        else:
            self._handler.on_transfer(delivery, passed, settled)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """Check a message in a transaction; its refusal is a part of that."""
        self._handler.on_post(post, self._checked(data))

    def _checked(self, data: bytes) -> bytes:
        """The message for the handler; raises AmqpError for an annotation that is not understood."""
        found = unknown_annotation(data, self._understands)
        if found is not None:
            raise self._link.own(_not_understood(found))
        return only(data, self._understands) if may_be_annotated(data) else data

    def _refuse(self, delivery: Delivery, settled: bool, error: AmqpError) -> None:
        link = self._link
        link.message_refused(error)
        if self._detaches:
            link.detach(error)
            return
        if settled:
            link.drop(delivery)
        else:
            link.settle(delivery, Rejected(error))
        link.grant(1)


def _not_understood(found: str) -> AmqpError:
    text = f"the gateway does not understand the {found}, and strict_annotations refuses what it does not understand"
    return AmqpError(NOT_IMPLEMENTED, text)

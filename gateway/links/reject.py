"""Rejects one message, in the way that its sender supports (AT 2.2.2, RA-2.4-4)."""

from __future__ import annotations

from gateway.amqp.link.outcomes import SETTLED, Rejected
from gateway.errors import AmqpError
from gateway.links.link import Delivery, MessageOrigin


def reject_delivery(link: MessageOrigin, delivery: Delivery, error: AmqpError, settled: bool) -> None:
    """Reject the delivery; if the sender cannot get the outcome `rejected`, detach its link.

    In both cases `info` has the delivery-tag (ledger A24); of an error in another scope only the condition is sent.
    """
    shown = error.of(link.behind).told_to(link.scope).tagged(link.tag(delivery), link.scope)
    link.message_refused(error)
    if settled or not link.rejects:
        if settled:  # otherwise only the detach answers it (AT-2.2.2-7)
            link.settle(delivery, SETTLED)
        link.fail(shown)
    else:
        link.settle(delivery, Rejected(shown))

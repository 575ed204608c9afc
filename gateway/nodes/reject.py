"""How a node refuses one message, whatever its sender can hear (AT 2.2.2, RA-2.4-4)."""

from __future__ import annotations

from gateway.amqp.link.outcomes import SETTLED, Rejected
from gateway.errors import AmqpError
from gateway.nodes.link import Delivery, MessageOrigin


def reject_delivery(link: MessageOrigin, delivery: Delivery, error: AmqpError, settled: bool) -> None:
    """Reject the delivery; where no rejection can be heard, detach the link that carried it.

    Either way `info` names the delivery by its tag (ledger A24); of another scope nothing is told but the condition.
    """
    said = error.told_to(link.scope)
    told = AmqpError(
        said.condition,
        said.description,
        info={**said.info, "delivery-tag": link.tag(delivery)},
        fault=said.fault,
    )
    link.message_refused(error)
    if settled or not link.rejects:
        if settled:  # else nothing but the detach answers it (AT-2.2.2-7)
            link.settle(delivery, SETTLED)
        link.fail(told)
    else:
        link.settle(delivery, Rejected(told))

"""Links as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.documents.common import Document, moment, shown

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

_OUTCOMES = ("accepted", "released", "rejected", "modified", "settled", "dropped")


def link_document(connection: int, link: Link, waiting: float | None, rate: float | None) -> Document:
    """A link; `waiting` is the time since which it has waited for credit, in seconds since 1970.

    `rate`: messages a second; None: nobody has looked yet.
    """
    decision, counts = link.decision, link.counts()
    return {
        "id": f"{connection}.{link.serial}",
        "connection": str(connection),
        "scope": link.scope,
        "user": link.user,
        "name": shown(link.name),
        "direction": "in" if link.incoming else "out",
        "state": state_of(link),
        "address": shown(link.address),
        "rule": None if decision is None else decision.rule,
        "credit": credit_of(link),
        "unsettled": unsettled_of(link),
        "transfers": counts.pop("transfers"),
        "rate": rate,
        "outcomes": {name: counts[name] for name in _OUTCOMES if counts.get(name)},
        "refused": link.refusals,
        "waiting_since": moment(waiting),
    }


def credit_of(link: Link) -> int:
    """The messages that the sender of the link may send now."""
    return link.granted if link.incoming else link.window


def unsettled_of(link: Link) -> int:
    """Messages without an outcome."""
    return len(link.held) if link.incoming else len(link.unsettled)


def state_of(link: Link) -> str:
    """`attaching` (its attach has no answer yet), `open` or `ending`."""
    if link.open and not link.gone:
        return "open"
    return "attaching" if link.waits else "ending"

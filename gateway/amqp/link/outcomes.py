"""Delivery outcomes (AMQP 1.0 part 3, 3.4) as the nodes see them.

The common ones are singletons, so that the per-message path compares by identity and allocates nothing.
"""

from __future__ import annotations

from typing import Final

from gateway.errors import AmqpError


class Outcome:
    """A terminal state of a delivery; `name` is its name in metrics and logs."""

    __slots__ = ()
    name: str = "settled"


class Accepted(Outcome):
    """3.4.2: the receiver has processed the message or stored it safely."""

    __slots__ = ()
    name = "accepted"


class Released(Outcome):
    """3.4.4: the message was not processed; the sender may send it again."""

    __slots__ = ()
    name = "released"


class Rejected(Outcome):
    """3.4.3: the message is invalid for the receiver, because of `error`."""

    __slots__ = ("error",)
    name = "rejected"

    def __init__(self, error: AmqpError | None) -> None:
        self.error: Final = error


class Modified(Outcome):
    """3.4.5: `annotations` is an encoded map to merge into the message annotations, or None.

    They are of a peer in `scope`, and peers of other scopes do not get them (RA 1); None: no peer wrote them.
    """

    __slots__ = ("annotations", "failed", "scope", "undeliverable")
    name = "modified"

    def __init__(
        self,
        failed: bool = False,
        undeliverable: bool = False,
        annotations: bytes | None = None,
        scope: str | None = None,
    ) -> None:
        self.failed: Final = failed
        self.undeliverable: Final = undeliverable
        self.annotations: Final = annotations
        self.scope: Final = scope

    def annotations_for(self, scope: str) -> bytes | None:
        """The annotations for a peer in `scope`: None if they are of another scope."""
        return self.annotations if self.scope is None or self.scope == scope else None


class Declared(Outcome):
    """Part 4, 4.5.5: the coordinator has begun a transaction."""

    __slots__ = ("txn_id",)
    name = "accepted"

    def __init__(self, txn_id: bytes) -> None:
        self.txn_id: Final = txn_id


class Provisional(Outcome):
    """Part 4, 4.5.6: an outcome that holds if its transaction is committed."""

    __slots__ = ("name", "outcome", "raw", "txn_id")

    def __init__(self, txn_id: bytes, outcome: Outcome) -> None:
        self.txn_id: Final = txn_id
        self.outcome: Final = outcome
        self.raw = b""
        """Its fields on the wire, if they are the same for all messages."""
        self.name = outcome.name


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()
SETTLED: Final = Outcome()
FAILED: Final = Modified(failed=True)


def from_node(outcome: Outcome, scope: str | None) -> Outcome:
    """The outcome, as one of a node in `scope`; None: the node is in the scope of the peer."""
    if scope is None or not isinstance(outcome, Rejected) or outcome.error is None:
        return outcome
    return Rejected(outcome.error.of(scope))


def spoken_in(outcome: Outcome, scope: str) -> Outcome:
    """The outcome, as one of a peer in `scope`."""
    if isinstance(outcome, Rejected) and outcome.error is not None:
        outcome.error.scope = scope
    if isinstance(outcome, Modified):
        return Modified(outcome.failed, outcome.undeliverable, outcome.annotations, scope)
    return outcome

"""The link of a group as its receiver uses it: it has no credit once its lease or share has ended (KM-10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bridges.kafka.links.event_edits import Rewrite
from gateway.amqp.link.state import DetachKind
from gateway.errors import AmqpError
from gateway.links.link import LinkCounter, LinkEngine, OutgoingLink, SendContext, Unsettled


class SendRight(Protocol):
    """A lease or a share (`gateway.state.leases.lease`)."""

    @property
    def valid(self) -> bool: ...


class LeaseGatedLink:
    """A link (as `LogLink`) that has no credit once its lease or share has ended.

    The lease is checked before each batch: after the process was suspended, a batch from Kafka may come first.
    """

    def __init__(self, link: OutgoingLink, lease: SendRight) -> None:
        self._link: Final = link
        self._lease: Final = lease
        self.closing = False
        """Send nothing more, although the lease may be valid."""
        # Instance attributes, so that sending needs no additional call.
        self.send: Final = link.send
        self.send_all: Final = link.send_all

    @property
    def credit(self) -> int:
        """Messages that may be sent now."""
        return 0 if self.closing or not self._lease.valid else self._link.credit

    @property
    def open(self) -> bool:
        """See `Link`, as everything below."""
        return self._link.open

    @property
    def engine(self) -> LinkEngine:
        return self._link.engine

    @property
    def left(self) -> DetachKind | None:
        return self._link.left

    @property
    def counter(self) -> LinkCounter | None:
        return self._link.counter

    @property
    def draining(self) -> bool:
        return self._link.draining

    @property
    def unsettled(self) -> Unsettled:
        return self._link.unsettled

    @property
    def unsettled_bytes(self) -> int:
        return self._link.unsettled_bytes

    @property
    def keeps_too_much(self) -> bool:
        return self._link.keeps_too_much

    @property
    def leaving(self) -> Rewrite | None:
        return self._link.leaving

    def drained(self) -> None:
        self._link.drained()

    def keep(self, size: int) -> None:
        self._link.keep(size)

    def attempt(self, step: Callable[[], None]) -> None:
        self._link.attempt(step)

    def take_unsettled(self) -> Sequence[SendContext]:
        return self._link.take_unsettled()

    def detach(self, error: AmqpError | None = None) -> None:
        self._link.detach(error)

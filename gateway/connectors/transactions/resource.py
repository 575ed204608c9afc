"""The transactions at the container of one connector, as a resource of clients' transactions (KM-14, decision 83)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.amqp.link.outcomes import SETTLED, spoken_in
from gateway.amqp.link.transactions import (
    Acquiring,
    Enlisting,
    Retirement,
    RetiringLink,
    TransactedLink,
    unknown,
)
from gateway.connectors.transactions.branch import RemoteBranch
from gateway.connectors.transactions.coordinator import RemoteCoordinator
from gateway.errors import DETACH_FORCED, AmqpError, Fault

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.links.link_context import LinkContext
    from gateway.routing.fair_share import Timer


class ContainerConnection(Protocol):
    """The part of a connector that transactions use."""

    @property
    def engine(self) -> Engine | None:
        """The connection, while it can be used."""

    def later(self, seconds: float, call: Callable[[], None]) -> Timer: ...
    def remote_context(self, *, routes_responses: bool) -> LinkContext:
        """The context of a link to the container."""


class ContainerTransactions:
    """A `Resource` for clients' transactions, and the `Transactions` of the connection to the container."""

    title: Final = "a remote container"
    undecided: Final = SETTLED

    def __init__(self, connector: ContainerConnection) -> None:
        self._connector: Final = connector
        self._engine: Engine | None = None
        self._coordinator: RemoteCoordinator | None = None
        self._missing: AmqpError | None = None
        """Why the gateway cannot use a coordinator on this connection; None if that is not known."""

    def begin(self, transaction: Enlisting) -> RemoteBranch:
        """See `Resource`; raises AmqpError if the container is not connected or has no coordinator."""
        if (engine := self._connector.engine) is None:
            text = "the container behind this address is not connected; try again"
            raise AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)
        if engine is not self._engine:
            self._engine, self._coordinator, self._missing = engine, None, None
            engine.peer.transactions = self
        if self._missing is not None:
            raise self._missing.with_traceback(None)  # or the shared error would collect the frames of each raise
        if self._coordinator is None:
            self._attach(engine)
        assert self._coordinator is not None
        return RemoteBranch(self._coordinator, transaction, self._connector.later)

    def _attach(self, engine: Engine) -> None:
        def missing(error: AmqpError) -> None:
            if engine is self._engine:
                self._missing = error

        def ended() -> None:
            if engine is self._engine:
                self._coordinator = None

        context = self._connector.remote_context(routes_responses=False)
        self._coordinator = RemoteCoordinator(engine, context, missing, ended)

    def closed(self) -> None:
        """The connection to the container has ended."""
        if self._coordinator is not None:
            self._coordinator.closed()

    # -- from the connection to the container (`gateway.amqp.link.transactions.Transactions`)

    def knows(self, txn_id: bytes) -> bool:
        """Always true: an unknown transaction shows in the outcome of the message."""
        return True

    def post(self, link: TransactedLink, txn_id: bytes, delivery: int, data: bytes, settled: bool) -> None:
        """The container sends in a transaction that the gateway did not declare: detach the link."""
        link.detach(unknown(txn_id))

    def post_all(self, link: TransactedLink, txn_id: bytes, messages: list[tuple[int, bytes, bool]]) -> None:
        """As `post`, for several messages."""
        link.detach(unknown(txn_id))

    def part(self, link: TransactedLink, txn_id: bytes | None) -> None:
        """No effect: the container discharges nothing."""

    def retire(self, link: RetiringLink, txn_id: bytes, retirement: Retirement) -> None:
        """The container has settled a post within the transaction (4.4.1)."""
        spoken_in(retirement.outcome, link.scope)
        retirement.commit()

    def miss(self, link: RetiringLink, txn_id: bytes) -> None:
        """No effect: the post got its outcome, which was none, with the end of its link."""

    def acquire(self, link: object, txn_id: bytes) -> Acquiring:
        """The container acquires in a transaction that the gateway did not declare."""
        raise unknown(txn_id)

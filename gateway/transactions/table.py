"""The transactions of one connection, by their ids, and what all transactions of a gateway share.

An id is valid on every session of the connection on which it was declared (`amqp:multi-txns-per-ssn`,
`amqp:multi-ssns-per-txn`), and on no other connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from gateway.agenda import Soon
from gateway.amqp.link.outcomes import FAILED
from gateway.amqp.link.transactions import Retirement, RetiringLink, TransactedLink
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.routing.fair_share import Timer
from gateway.transactions.acquisition import Acquisition
from gateway.transactions.posts import Post, Posts
from gateway.transactions.retirements import fail_late, retire_in_turn
from gateway.transactions.transaction import Transaction

if TYPE_CHECKING:
    from gateway.amqp.link.sender_link import SenderHalf



class TransactionLimits:
    """The number of transactions of one scope and of each connection, and how long each may take."""

    def __init__(
        self, later: Callable[[float, Callable[[], None]], Timer], new_id: Callable[[], bytes], soon: Soon | None
    ) -> None:
        """`later` and `soon` schedule a call; `new_id` makes an id that no other transaction has."""
        self.later: Final = later
        self.soon: Final = soon
        self.new_id: Final = new_id
        self.open = 0
        self.limit(1000, 100, 60_000)

    def limit(self, most: int, of_connection: int, timeout_ms: int) -> None:
        """At most so many at a time, and of one connection, each for so long from its first work to its discharge."""
        self._most, self._of_connection, self.seconds = most, of_connection, timeout_ms / 1000

    def take(self, here: int) -> None:
        """Count one more of a connection that has `here`; raises AmqpError (RESOURCE_LIMIT_EXCEEDED)."""
        if here >= self._of_connection:
            text = f"{here} transactions of this connection are open (connection_transactions): discharge some first"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        if self.open >= self._most:
            text = f"{self._most} transactions are open (max_transactions): discharge some first"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        self.open += 1


class TransactionTable:
    """The transactions of one connection (`gateway.amqp.link.transactions.Transactions`)."""

    undecided: Final = FAILED

    def __init__(self) -> None:
        self._known: Final[dict[bytes, Transaction]] = {}
        self._parts: Final[dict[TransactedLink, bytes]] = {}
        """The transaction of the message that is on its way on a link."""

    def declare(
        self,
        limits: TransactionLimits,
        forget: Callable[[bytes], object],
        violated: Callable[[AmqpError], None] | None = None,
    ) -> Transaction:
        """A new transaction; `forget` is called when it has ended, `violated` if its controller breaks a rule.

        Raises AmqpError (RESOURCE_LIMIT_EXCEEDED).
        """
        limits.take(len(self._known))
        txn_id, timers = limits.new_id(), list[Timer]()

        def started() -> None:
            timers.append(limits.later(limits.seconds, transaction.time_out))

        def ended() -> None:
            if self._known.pop(txn_id, None) is not None:
                limits.open -= 1
                forget(txn_id)
            for timer in timers:
                timer.cancel()

        transaction = self._known[txn_id] = Transaction(txn_id, started, ended, violated, limits.soon)
        return transaction

    def find(self, txn_id: bytes) -> Transaction | None:
        """The transaction with this id."""
        return self._known.get(txn_id)

    def in_parts(self, txn_id: bytes) -> bool:
        """Whether only a part of a message in this transaction has come."""
        return txn_id in self._parts.values()

    def knows(self, txn_id: bytes) -> bool:
        """See `Transactions`, as everything below."""
        return txn_id in self._known

    def post(self, link: TransactedLink, txn_id: bytes, delivery: int, data: bytes, settled: bool) -> None:
        Post(self._known[txn_id], link, delivery, settled=settled).pass_to(link.handler.on_post, data)

    def post_all(self, link: TransactedLink, txn_id: bytes, messages: list[tuple[int, bytes, bool]]) -> None:
        posts = Posts(self._known[txn_id], link, messages)
        if link.engine.refusing:
            posts.one_by_one(link.handler.on_post)
        else:
            link.handler.on_posts(posts)

    def part(self, link: TransactedLink, txn_id: bytes | None) -> None:
        if txn_id is None:
            self._parts.pop(link, None)
            self._keep(link)
        else:
            self._parts[link] = txn_id

    def _keep(self, link: TransactedLink) -> None:
        """A link whose last message is no more on its way may have ended."""
        if not link.open:
            for transaction in self._known.values():
                transaction.order.keep()

    def retire(self, link: RetiringLink, txn_id: bytes, retirement: Retirement) -> None:
        retire_in_turn(self._known[txn_id], link, retirement)

    def miss(self, link: RetiringLink, txn_id: bytes) -> None:
        fail_late(self._known[txn_id], link)

    def acquire(self, link: object, txn_id: bytes) -> Acquisition:
        transaction, sender = self._known[txn_id], cast("SenderHalf", link)
        transaction.check(sender.scope)
        if isinstance(before := transaction.acquirer(sender), Acquisition):
            return before  # its limit counts all that the link has got, whatever the flows between named
        sender.handler.on_acquire(transaction)
        acquisition = Acquisition(sender, self, transaction)
        transaction.acquire(sender, acquisition)
        return acquisition

    # -- from acquisitions

    def violated(self, txn_id: bytes, error: AmqpError) -> None:
        """The controller of a transaction has broken a rule: the link to its coordinator ends."""
        if (transaction := self._known.get(txn_id)) is not None:
            transaction.violated(error)

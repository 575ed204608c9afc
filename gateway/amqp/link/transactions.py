"""What links and nodes use of transactions (AMQP 1.0 part 4); `gateway.transactions` implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from gateway.amqp.codec.types import Value
from gateway.amqp.link.outcomes import Outcome, Provisional
from gateway.errors import TRANSACTION_UNKNOWN, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.proton.handles import ProtonDelivery

Answer: TypeAlias = Callable[[AmqpError | None], None]
"""Gets the result of a commit or rollback: None if it has succeeded."""


class Branch(Protocol):
    """The part of a resource in one transaction."""

    def commit(self, then: Answer) -> None:
        """Commit; `then` gets why that was not possible: then everything was rolled back."""

    def roll_back(self, then: Answer) -> None:
        """Roll back, whatever happens; `then` is called when that is done, with the reason if it shows only then."""


BranchT = TypeVar("BranchT", bound=Branch)
BranchT_co = TypeVar("BranchT_co", bound=Branch, covariant=True)


class Resource(Protocol[BranchT_co]):
    """Something that commits the work of a transaction as one."""

    @property
    def title(self) -> str:
        """What it is, for an error."""

    def begin(self, transaction: Enlisting) -> BranchT_co:
        """Begin its part of a transaction; raises AmqpError (RESOURCE_LIMIT_EXCEEDED) if it has no room."""


class WaitingWork(Protocol):
    """A part of a transaction that waits for something; all that came after it waits behind it."""

    def give_up(self) -> None:
        """The transaction is rolled back first."""

    def keep(self) -> None:
        """A link of the connection has ended: if it was the link of this one, account for it from now on."""


class Enlisting(Protocol):
    """A transaction, as nodes and resources use it."""

    def enlist(self, resource: Resource[BranchT]) -> BranchT:
        """The part of a resource in the transaction; raises AmqpError if that cannot be."""

    def enlisted(self, resource: Resource[BranchT]) -> BranchT | None:
        """The part of a resource that already works in the transaction, and may go on; None: there is none."""

    @property
    def failure(self) -> AmqpError | None:
        """Why it can only be rolled back; None: it can be committed."""

    def fail(self, error: AmqpError) -> None:
        """Work has failed, and no outcome says so: from now on it can only be rolled back (4.4.4)."""

    def at_end(self, told: Callable[[bool], None]) -> None:
        """Call `told` once when the transaction ends: with True if it was committed; its messages get outcomes then."""

    def when_done(self, call: Callable[[], None]) -> None:
        """Call when the transaction has done all that it is doing: after its end, when all messages have outcomes."""

    def wait_for(self, work: WaitingWork) -> None:
        """The message that was just posted has to wait: its transaction goes on after `go_on`, for all that follows."""

    def go_on(self, work: WaitingWork) -> None:
        """The message was passed on or refused; no effect if it was given up."""


class PostedMessage(Protocol):
    """A message in a transaction (4.4.1), as nodes use it: it gets one of these calls."""

    behind: str | None
    """The scope of the node that it goes to, if that is another one than its sender's."""

    @property
    def transaction(self) -> Enlisting: ...
    @property
    def settled(self) -> bool:
        """Whether it was sent settled."""
    @property
    def tag(self) -> bytes:
        """The delivery-tag."""
    @property
    def attached(self) -> bool:
        """Whether its link is there: until its outcome, the connection counts the bytes of a message of such a link."""
    def hold(self, size: int) -> None:
        """Account for so many bytes more (or fewer) that wait for the end of the transaction."""

    def accept(self) -> None:
        """The resource has the message until the end of the transaction."""

    def release(self) -> None:
        """The resource has not taken the message; its transaction can only be rolled back."""

    def refuse(self, error: AmqpError) -> None:
        """The message cannot be a part of the transaction."""


class WaitingPost:
    """A message that waits, for its destination or its turn, and has no outcome meanwhile (`WaitingWork`).

    Its connection counts its bytes: here, if its link has ended.
    """

    def __init__(self, post: PostedMessage, data: bytes) -> None:
        self.post: Final = post
        self.data: Final = data
        self._kept = 0

    def keep(self) -> None:
        """See `WaitingWork`."""
        if not self.post.attached and not self._kept:
            self._kept = len(self.data)
            self.post.hold(self._kept)

    def taken(self) -> None:
        """It waits no more."""
        if self._kept:
            self.post.hold(-self._kept)
            self._kept = 0

    def give_up(self) -> None:
        """See `WaitingWork`."""
        self.taken()
        self.post.release()


class PostedMessages(Protocol):
    """Messages of one link in one transaction, in order, which came unsettled; each gets one outcome."""

    @property
    def transaction(self) -> Enlisting: ...
    @property
    def messages(self) -> list[tuple[int, bytes, bool]]:
        """Their deliveries and bytes; False: they came unsettled."""

    @property
    def attached(self) -> bool:
        """See `PostedMessage`."""
    def hold(self, size: int) -> None:
        """See `PostedMessage`."""

    def single(self, index: int) -> PostedMessage:
        """One of them."""

    def post(self, index: int, on_post: Callable[[PostedMessage, bytes], None]) -> bool:
        """Call `on_post` for one of them, and refuse it if that raises AmqpError; False: that has ended the link."""

    def one_by_one(self, on_post: Callable[[PostedMessage, bytes], None]) -> None:
        """`post` for each, until that has ended the link."""

    def unanswered(self, start: int, end: int) -> UnansweredMessages:
        """Some of them, to give them their outcomes later."""


class UnansweredMessages(Protocol):
    """Messages in a transaction that have no outcome yet, in order; those of one link can get it together."""

    @property
    def left(self) -> int:
        """How many there are."""

    def join(self, later: UnansweredMessages) -> bool:
        """Take over messages that came after these, if they can get their outcomes together."""

    def accept(self, count: int) -> None:
        """`PostedMessage.accept` for the first ones."""

    def release(self, count: int) -> None:
        """`PostedMessage.release` for the first ones."""


class Retirement(Protocol):
    """A message that we sent, and the outcome that it gets with its transaction (4.4.2)."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def settled(self) -> bool:
        """Whether its receiver has settled it."""
    @property
    def context(self) -> object:
        """The node's object for the message."""
    @property
    def attached(self) -> bool:
        """Whether the link is there that the message was sent on."""
    @property
    def open(self) -> bool:
        """Whether the message can still get the outcome: its link has not ended, and it has none yet."""
    @property
    def message(self) -> tuple[object, int]:
        """Its link and number. An unsettled message may get several outcomes in one transaction: the last one holds."""
    def replace(self) -> None:
        """A later outcome has taken the place of this one, which is none any more."""

    def hand_over(self) -> object:
        """The node's object for the message, whose outcome the node gives itself, in a transaction of its container.

        If its receiver has settled it, `commit` and `roll_back` do nothing from now on.
        """

    def hold(self, waits: bool) -> None:
        """Account for the message while its outcome waits, or no more; its link does so while it is unsettled."""

    def commit(self) -> None:
        """The outcome holds."""

    def roll_back(self) -> None:
        """The outcome does not hold: a settled message has failed, an unsettled one has no outcome."""


class PostingHandler(Protocol):
    """What transactions use of the handler of a link."""

    def on_post(self, post: PostedMessage, data: bytes) -> None: ...
    def on_posts(self, posts: PostedMessages) -> None: ...
    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None: ...
    def on_acquire(self, transaction: Enlisting) -> None: ...


class NamedTransaction(NamedTuple):
    """The `txn-id` of a flow's properties (4.4.3), whatever it is; None: from now on there is no transaction."""

    txn_id: Value


class Acquiring(Protocol):
    """What one link sends in one transaction (4.4.3), as the link uses it."""

    @property
    def txn_id(self) -> bytes: ...
    def send(self, data: bytes, context: object, settled: bool) -> None:
        """Send a message in the transaction."""

    def withholds(self) -> bool:
        """Whether the credit of the link is of no use now; a drain is then answered at once."""

    def told(
        self, number: int, delivery: ProtonDelivery, settled: bool, outcome: Outcome, txn_id: bytes | None
    ) -> None:
        """The receiver has given a message an outcome (SETTLED: none), in this transaction, another one or none."""

    def accepted(self, number: int) -> None:
        """The receiver has accepted a message outside of any transaction; it is settled already."""

    def link_ended(self) -> None:
        """The link has ended: its messages wait for the end of the transaction all the same."""


class TransactedEngine(Protocol):
    """What transactions use of a connection."""

    ending: bool
    refusing: bool
    unfinished: int
    def touch(self) -> None: ...


class RetiringLink(Protocol):
    """What transactions use of a link whose messages get an outcome."""

    @property
    def handler(self) -> PostingHandler: ...
    @property
    def scope(self) -> str: ...
    @property
    def behind(self) -> str | None: ...


class TransactedLink(RetiringLink, Protocol):
    """What transactions use of a link whose messages are posted."""

    @property
    def engine(self) -> TransactedEngine: ...
    @property
    def rejects(self) -> bool: ...
    @property
    def open(self) -> bool: ...
    def tag(self, delivery: int) -> bytes: ...
    def grant(self, credit: int) -> None: ...
    def settle(self, delivery: int, outcome: Outcome) -> None: ...
    def settle_all(self, deliveries: list[int], outcome: Provisional) -> None: ...
    def detach(self, error: AmqpError | None = None) -> None: ...
    def message_refused(self, error: AmqpError) -> None: ...


class Transactions(Protocol):
    """The transactions of one connection, by their ids."""

    @property
    def undecided(self) -> Outcome:
        """The outcome of a message that is settled in a transaction without one, where its link has no default."""
    def knows(self, txn_id: bytes) -> bool:
        """Whether a transaction has this id: its coordinator has declared it, and it is not discharged."""

    def post(self, link: TransactedLink, txn_id: bytes, delivery: int, data: bytes, settled: bool) -> None:
        """A message of the peer came in a known transaction."""

    def post_all(self, link: TransactedLink, txn_id: bytes, messages: list[tuple[int, bytes, bool]]) -> None:
        """`post` for several that came unsettled, in order."""

    def part(self, link: TransactedLink, txn_id: bytes | None) -> None:
        """A message of the link has begun in this transaction; None: it has come whole, or never will."""

    def retire(self, link: RetiringLink, txn_id: bytes, retirement: Retirement) -> None:
        """The peer gave a message of ours on `link` an outcome in a known transaction."""

    def miss(self, link: RetiringLink, txn_id: bytes) -> None:
        """A message or an outcome came on `link`, which has ended: the transaction fails."""

    def acquire(self, link: object, txn_id: bytes) -> Acquiring:
        """What a `SenderHalf` sends is in a known transaction from now on; raises AmqpError if that cannot be."""


def unknown(txn_id: bytes) -> AmqpError:
    """The error for an id that no transaction of the connection has, or has any more."""
    return AmqpError(TRANSACTION_UNKNOWN, f"no transaction of this connection has the id {txn_id[:32].hex()}")

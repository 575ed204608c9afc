"""What a link uses of the engine that carries it (`gateway.amqp.engine.engine.Engine`).

The engine imports links; a link knows only this protocol of the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from gateway.amqp.link.attach_info import Disposition
from gateway.amqp.link.config import EngineConfig, PeerInfo
from gateway.amqp.proton.batch import Received, Tally, Unsettled
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import Outgoing
    from gateway.amqp.link.outcomes import Outcome
    from gateway.amqp.proton.handles import ProtonDelivery

RESUMED: Final = -1
"""A message-format that marks a resumed delivery; none can be known here, because we send no unsettled maps."""
LinkT = TypeVar("LinkT", contravariant=True)
"""The engine's class of links."""


class EnginePort(Protocol[LinkT]):
    """What links use of their connection. Sizes are in bytes; attributes are read and written for each message."""

    peer: PeerInfo
    dirty: bool
    """Whether the connection knows that there is output."""
    opened: bool
    """The peer's open was received."""
    closed: bool
    blocked: bool
    """Nothing may be sent now: the socket is full, or too much is unsettled."""
    stuffed: bool
    """Too many released events are held for the peer: nothing new may be sent."""
    granting: bool
    """Whether peers get credit; False while the gateway shuts down."""
    refusing: bool
    """The connection holds too much: messages of the peer are refused."""
    ending: bool
    """The gateway accepts no more messages and releases those that come."""
    serial: int
    """The number of our last delivery on the connection, which is its delivery-tag."""
    kept: int
    """Bytes of released events of logs that are held for the peer."""
    forsaken: int
    """Bytes of messages without outcome on links that we have detached and the peer has not."""
    unfinished: int
    """Bytes of incomplete messages that were read from proton, and of messages in transactions that are not over."""
    ignored: int
    """Resumed deliveries of the peer."""
    refusals: int
    """Links of the peer that were refused."""
    remote_container: str
    """The container-id of the peer's open."""
    offered: frozenset[str]
    """The capabilities that the peer's open offers."""
    desired: frozenset[str]
    """The capabilities that the peer's open desires."""

    def __hash__(self) -> int: ...
    @property
    def links(self) -> Iterable[object]:
        """The attached links, to be compared by identity."""
    @property
    def config(self) -> EngineConfig: ...
    @property
    def tally(self) -> Tally:
        """The memory of the connection's deliveries."""
    @property
    def receivers(self) -> dict[int, Received]:
        """Unsettled deliveries of the open links on which whole messages come, by the link's address."""
    @property
    def senders(self) -> dict[int, Unsettled]:
        """Unsettled deliveries of the open links on which we send, by the link's address."""
    @property
    def oversize(self) -> deque[Callable[[], None]]:
        """Calls before the next write that give messages their outcomes that are too large for their receivers."""
    @property
    def disposition(self) -> Disposition | None:
        """What the present disposition says, if it was read from its frame."""

    def touch(self) -> None:
        """There may be output to write."""

    def message_format(self, name: str, tag: bytes) -> int:
        """The message-format of a delivery of the link `name`, or `RESUMED`; may be called once."""

    def abandon(self, link: LinkT) -> None:
        """Nobody waits any more for the answer to an attach of ours."""

    def hold_up(self, link: LinkT) -> None:
        """Call `flowed` of `link` when it may send again."""

    def owes_drain(self, link: LinkT) -> None:
        """Try `credit_returned` of `link` after each write, until it succeeds or the link ends."""

    def withholds(self, link: LinkT) -> bool:
        """Whether `link` must not grant credit until its `grant_withheld` is called."""

    def attached(self, link: LinkT) -> None:
        """Reserve a handle for our half of a link of the peer; raises AmqpError if there is none."""

    def attaching(self, link: LinkT) -> None:
        """The attach of a sender of ours will be written next."""

    def detached(self, link: LinkT) -> None:
        """Our half of a link detaches."""

    def restate(self, accept: Callable[[], None], state: bytes) -> None:
        """Call `accept`, which accepts messages, and write this state, described and encoded, as their outcome."""

    def sends_no_more(self, link: LinkT) -> None:
        """`link` has ended."""

    def release(self, link: LinkT) -> None:
        """Nothing will come on `link` any more."""

    def forget(self) -> None:
        """The connection is freed."""

    def refused(self, link: LinkT, error: AmqpError) -> None:
        """A link of the peer was refused: for the operator's log and counters."""

    def message_refused(self, link: LinkT, error: AmqpError) -> None:
        """A message of the peer was refused: for the operator's log and counters."""

    def counted_late(self, link: LinkT) -> None:
        """A link has counted something after its end."""


class StatedLink(Protocol):
    """What an outcome in a transaction uses of the link of its message."""

    @property
    def handler(self) -> Outgoing: ...
    @property
    def open(self) -> bool: ...
    @property
    def unsettled(self) -> Unsettled: ...
    def keep(self, size: int) -> None: ...
    def settle_sent(self, number: int, delivery: ProtonDelivery, outcome: Outcome) -> None: ...

"""What a link uses of the engine that carries it (`gateway.amqp.engine.engine.Engine`).

Links and engine know each other: the engine imports links, and a link knows this protocol alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from gateway.amqp.engine.batch import Received, Tally, Unsettled
from gateway.amqp.engine.config import EngineConfig, PeerInfo
from gateway.errors import AmqpError

LinkT = TypeVar("LinkT", contravariant=True)
"""The engine's class of links."""


class EnginePort(Protocol[LinkT]):
    """One connection, as its links see it. Sizes are in bytes; attributes are read and written for each message."""

    peer: PeerInfo
    dirty: bool
    """Output waits, and the connection knows it."""
    opened: bool
    """The peer's open has come."""
    closed: bool
    blocked: bool
    """Nothing may be sent now: the socket or what may be unsettled is full."""
    stuffed: bool
    """So much is kept of what the peer gave back that nothing new may be sent."""
    granting: bool
    """Peers get credit; False while the gateway ends."""
    refusing: bool
    """The connection holds too much: what the peer sends is refused."""
    ending: bool
    """The gateway takes no more messages: what comes is released."""
    serial: int
    """The number of our last delivery on the connection, which is its delivery-tag."""
    kept: int
    """Events of logs that the peer gave back and that are kept for it."""
    unfinished: int
    """Messages that are not complete and were taken from proton."""
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
        """Those that are attached, to be compared by identity."""
    @property
    def config(self) -> EngineConfig: ...
    @property
    def tally(self) -> Tally:
        """What the deliveries of the connection take."""
    @property
    def receivers(self) -> dict[int, Received]:
        """What has no outcome yet on the open links on which whole messages come, by the links' addresses."""
    @property
    def senders(self) -> dict[int, Unsettled]:
        """What has no outcome yet on the open links on which we send, by the links' addresses."""
    @property
    def oversize(self) -> deque[Callable[[], None]]:
        """To be called before the next write: outcomes of messages that are too large for their receivers."""
    @property
    def disposition_text(self) -> str | None:
        """The error text of the disposition that is looked at, where proton shows only a part of it."""

    def touch(self) -> None:
        """Output may wait."""

    def message_format(self, name: str, tag: bytes) -> int:
        """The message-format of a delivery that came on the link `name`; asked once."""

    def hold_up(self, link: LinkT) -> None:
        """`link` may not send though it wants to: its `flowed` is called when it may."""

    def withholds(self, link: LinkT) -> bool:
        """Whether `link` has to keep credit that it was to grant, until its `grant_withheld` is called."""

    def attached(self, link: LinkT) -> None:
        """Our half of a link of the peer will need a handle; raises AmqpError where there is none."""

    def attaching(self, link: LinkT) -> None:
        """The attach of a sender of ours is to be written."""

    def detached(self, link: LinkT) -> None:
        """Our half of a link detaches."""

    def sends_no_more(self, link: LinkT) -> None:
        """`link` has ended."""

    def refused(self, link: LinkT, error: AmqpError) -> None:
        """A link of the peer was refused: for the operator's log and counters."""

    def message_refused(self, link: LinkT, error: AmqpError) -> None:
        """A message of the peer was refused: for the operator's log and counters."""

    def counted_late(self, link: LinkT) -> None:
        """A link that has ended has counted something more."""

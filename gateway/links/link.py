"""The protocols of links as nodes, their handlers and the resolver use them.

A link of a peer is `gateway.amqp.link.link.Link`. `gateway.links.internal_link.InternalLink` has no peer: the
destinations of a link whose messages go to many nodes, messages pulled from a queue and the two ends of a bridge.
Kafka's gated links wrap one of these. All methods are called on the event loop, and none of them blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from gateway.amqp.link.handlers import Delivery as Delivery
from gateway.amqp.link.handlers import SendContext as SendContext
from gateway.amqp.message.hop import ROUTING

if TYPE_CHECKING:
    from gateway.amqp.link.config import EngineConfig, PeerInfo
    from gateway.amqp.link.handlers import Incoming, Outgoing
    from gateway.amqp.link.outcomes import Outcome
    from gateway.amqp.link.state import DetachKind
    from gateway.amqp.proton.proton_data import TerminusFields
    from gateway.errors import AmqpError
    from gateway.filters.parse.filter_set import Rules
    from gateway.links.decision import DecidedLink, RouteDecision
    from gateway.links.link_context import LinkContext
    from gateway.principal import Requester

OutgoingMessages: TypeAlias = list[Any]
"""Messages for `OutgoingLink.send_all`: the first item of each is its bytes, and each is its own context."""


class LinkEngine(Protocol):
    """What nodes use of the connection that carries a link."""

    @property
    def config(self) -> EngineConfig: ...
    @property
    def peer(self) -> PeerInfo: ...
    @property
    def blocked(self) -> bool:
        """Nothing may be sent now: the socket is full, or too much is unsettled."""
    @property
    def opened(self) -> bool:
        """The peer's open was received."""
    @property
    def closed(self) -> bool: ...
    @property
    def remote_container(self) -> str:
        """The container-id of the peer's open."""
    @property
    def offered(self) -> Collection[str]:
        """The capabilities that the peer's open offers."""
    @property
    def desired(self) -> Collection[str]:
        """The capabilities that the peer's open desires."""


class EventCounter(Protocol):
    """What the journal counts of a link that reads an event log."""

    def lot(self, scanned: int, matched: int, events: Sequence[Any]) -> None:
        """The link has read `scanned` events, `matched` of which match its filter, and sends `events` now."""

    def end(self) -> None: ...


class CountedLink(Protocol):
    """A link that the journal counts."""

    counter: LinkCounter | None


class LinkCounter(Protocol):
    """What the journal counts of a link."""

    def instrument(self, handler: Any) -> Any:
        """A wrapper of the link's handler that counts."""

    def left(self, link: CountedLink) -> None:
        """The link has ended."""

    def reading(self, positions: Callable[[], Mapping[int, int]]) -> EventCounter | None:
        """The counter of a link that begins to read an event log; None: the journal has no room for it."""


class Unsettled(Sized, Protocol):
    """The messages that were sent on a link and have no outcome yet."""

    @property
    def contexts(self) -> Collection[SendContext]:
        """The contexts of all deliveries, oldest first."""


class NodeLink(Protocol):
    """A link of either direction; `is_incoming` and `is_outgoing` tell which of its halves a node may use.

    `accept` or `refuse` answers the attach, at once or later; what was accepted ends with its handler's `on_detach`.
    """

    context: LinkContext
    """Its scope, and how reply addresses of its messages are treated."""
    decision: RouteDecision | None
    """The decision of the policy; None: no rule applies (temporary nodes, responses)."""
    counter: LinkCounter | None
    """The journal's counts of this link; None: there is no journal."""
    behind: str | None
    """The scope of its node, if that is another one than that of the other end, which hears none of its words."""

    @property
    def incoming(self) -> bool:
        """Whether the other end is the sender."""
    @property
    def name(self) -> str: ...
    @property
    def open(self) -> bool:
        """Whether it was accepted and has not ended: only then may messages and outcomes be sent."""
    @property
    def gone(self) -> bool:
        """Whether the other end has left: an unanswered attach gets no answer any more."""
    @property
    def engine(self) -> LinkEngine: ...
    @property
    def scope(self) -> str:
        """The scope of the other end."""
    @property
    def user(self) -> str:
        """The authenticated user at the other end; empty: the gateway itself."""
    @property
    def requester(self) -> Requester:
        """The requester of its messages."""
    @property
    def address(self) -> str | None:
        """The address of the attach."""
    @property
    def source(self) -> TerminusFields: ...
    @property
    def target(self) -> TerminusFields: ...
    @property
    def properties(self) -> Mapping[Any, Any]: ...
    @property
    def fence(self) -> int:
        """Greater for every later owner of the link's name, so that an earlier one cannot overwrite a position.

        0: no owner.
        """
    @property
    def offset_group(self) -> str | None:
        """The Kafka group that shows its position in a topic; None: one that is named after its terminus."""
    @property
    def filter_rules(self) -> Rules | None:
        """The rules for reading its filters; None: `gateway.filters.parse.filter_set.RULES`."""
    @property
    def presettled(self) -> bool:
        """Whether the attach asked for settled messages only."""
    @property
    def draining(self) -> bool:
        """Whether the receiver asked for a drain (AMQP 1.0 part 2, 2.6.7)."""

    def accept(
        self,
        handler: Incoming | Outgoing,
        *,
        address: str | None = None,
        capabilities: Iterable[str] = (),
        properties: Mapping[Any, Any] | None = None,
        filter: Mapping[Any, Any] | None = None,
        distribution_mode: str | None = None,
        max_message_size: int = 0,
        node_properties: Mapping[Any, Any] | None = None,
        durable: bool = False,
        volatile: bool = False,
        settled: bool = False,
        understands: frozenset[bytes] = ROUTING,
    ) -> None:
        """Answer the attach; from now on `handler` gets the link's events (`link.Link.accept`)."""

    def refuse(self, error: AmqpError) -> None:
        """Answer the attach with an error."""

    def detach(self, error: AmqpError | None = None) -> None:
        """End the link for good; `on_detach` is called before this returns."""

    def withdraw(self, error: AmqpError) -> None:
        """End a link that the policy or a backend no longer allows; its unsettled messages get an outcome first."""


class MessageOrigin(Protocol):
    """The origin of a message, which gets its outcome: a link, or `Copies` of a multicast message."""

    @property
    def context(self) -> LinkContext: ...
    @property
    def requester(self) -> Requester: ...
    @property
    def scope(self) -> str: ...
    @property
    def open(self) -> bool: ...
    @property
    def behind(self) -> str | None:
        """As `NodeLink.behind`."""
    @property
    def rejects(self) -> bool:
        """Whether the sender understands the outcome `rejected`."""

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """Settle a delivery; without effect if the link has ended."""

    def drop(self, delivery: Delivery) -> None:
        """Drop a delivery that came settled and that nobody takes."""

    def fail(self, error: AmqpError) -> None:
        """A settled message cannot be refused: end its link, unless other messages need it."""

    def tag(self, delivery: Delivery) -> bytes:
        """The delivery-tag; empty if the link has ended."""

    def message_refused(self, error: AmqpError) -> None:
        """A message was refused: for log and counters."""


class IncomingLink(NodeLink, MessageOrigin, Protocol):
    """The half of a link on which the other end sends: credit, deliveries and their outcomes."""

    @property
    def granted(self) -> int:
        """Granted credit that is not used yet."""

    def grant(self, credit: int) -> None:
        """Let the other end send `credit` more messages."""


class TargetTerminus(Protocol):
    """What transforms use of a receiver's target."""

    @property
    def capabilities(self) -> Collection[str]: ...
    @property
    def address(self) -> str | None: ...


class MessageTarget(Protocol):
    """What transforms use of the target of a message: a link, or a node of the gateway."""

    @property
    def context(self) -> LinkContext: ...
    @property
    def target(self) -> TargetTerminus: ...
    @property
    def address(self) -> str | None: ...
    @property
    def announcement_counts(self) -> bool:
        """Whether the container around the target may get response annotations at all (RA 2.1)."""


class OutgoingLink(NodeLink, Protocol):
    """The half of a link on which we send: the receiver's credit, messages and their outcomes."""

    leaving: TopicTransform | None
    """The transform of requests in a topic for this receiver (`gateway.nodes.topic_requests`); None: no change."""

    @property
    def announcement_counts(self) -> bool:
        """As `MessageTarget.announcement_counts`."""
    @property
    def credit(self) -> int:
        """Messages that may be sent now."""
    @property
    def most(self) -> int:
        """The receiver's max-message-size in bytes; 0: no limit."""
    @property
    def window(self) -> int:
        """The credit that the receiver gave, whether or not the connection may send now: cheaper than `credit`."""
    @property
    def left(self) -> DetachKind | None:
        """How the link ended, valid in `on_detach`; None: no peer is at the other end."""
    @property
    def acquiring(self) -> bool:
        """Whether what is sent now is acquired in a transaction of the receiver (part 4, 4.4.3)."""
    @property
    def unsettled(self) -> Unsettled:
        """What was sent and has no outcome yet."""
    @property
    def unsettled_bytes(self) -> int:
        """The size of the unsettled messages, in bytes."""
    @property
    def keeps_too_much(self) -> bool:
        """Whether too much is held for the receiver, so that nothing may be sent until `on_credit`."""

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """Send a message, if there is credit; the handler gets `context` with the outcome."""

    def send_all(self, messages: OutgoingMessages) -> None:
        """Send several messages, if there is credit for all."""

    def drained(self) -> None:
        """Answer a drain: no more messages are available."""

    def keep(self, size: int) -> None:
        """Account for `size` bytes more (or fewer) of messages that the receiver gave back."""

    def attempt(self, step: Callable[[], None]) -> None:
        """Call `step`; if it fails, end the link and raise the error."""

    def take_unsettled(self) -> Sequence[SendContext]:
        """The contexts of messages without an outcome, oldest first; for `on_detach`."""


TopicTransform: TypeAlias = Callable[[Any, Callable[[], None]], bytes | None]
"""Changes a request in a topic for its receiver (`gateway.nodes.topic_requests`).

None: not now; the given call follows when it can.
"""
PolicyVerdict: TypeAlias = "Callable[[DecidedLink], AmqpError | None]"
"""After a reload: returns why a link may not stay under the new policy, or None."""
Transform: TypeAlias = Callable[[bytes], bytes]
"""Changes a message for the scope that it enters: annotates or rewrites it; raises AmqpError to reject it."""
TransformFactory: TypeAlias = Callable[[MessageOrigin, MessageTarget], Transform | None]
"""Returns the transform of messages from one link to another, decided at the first message; None: no change."""


def is_incoming(link: NodeLink) -> TypeGuard[IncomingLink]:
    """Whether a node may use the receiving half of a link."""
    return link.incoming


def is_outgoing(link: NodeLink) -> TypeGuard[OutgoingLink]:
    """Whether a node may use the sending half of a link."""
    return not link.incoming

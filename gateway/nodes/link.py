"""A link as nodes, their handlers and the resolver see it, whatever is at its other end.

A link of a peer is `gateway.amqp.link.link.Link`. Others have no peer: the destinations of a link whose messages go to
many nodes, messages pulled from a queue and the two ends of a bridge (`gateway.nodes.internal_link.InternalLink`).
Kafka's gated links stand around one of these. All of them are called on the loop, and no method here blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from gateway.amqp.link.handlers import Delivery as Delivery
from gateway.amqp.link.handlers import SendContext as SendContext
from gateway.amqp.message.hop import ROUTING

if TYPE_CHECKING:
    from gateway.amqp.engine.config import EngineConfig, PeerInfo
    from gateway.amqp.engine.proton_data import TerminusFields
    from gateway.amqp.link.handlers import Incoming, Outgoing
    from gateway.amqp.link.outcomes import Outcome
    from gateway.amqp.link.state import DetachKind
    from gateway.errors import AmqpError
    from gateway.filters.parse.filter_set import Rules
    from gateway.nodes.decision import DecidedLink, RouteDecision
    from gateway.principal import Requester
    from gateway.routing.link_context import LinkContext

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
        """Nothing may be sent now: the socket or what may be unsettled is full."""
    @property
    def opened(self) -> bool:
        """The peer's open has come."""
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
        """The link has gone past `scanned` events, `matched` of which its filter wants, and sends `events` now."""

    def end(self) -> None: ...


class CountedLink(Protocol):
    """A link that the journal counts."""

    counter: LinkCounter | None


class LinkCounter(Protocol):
    """What the journal counts of a link."""

    def instrument(self, handler: Any) -> Any:
        """The handler of the link, with counting around it."""

    def left(self, link: CountedLink) -> None:
        """The link counts no more."""

    def reading(self, positions: Callable[[], Mapping[int, int]]) -> EventCounter | None:
        """For a link that begins to read an event log; None: the journal has no room for it."""


class Unsettled(Sized, Protocol):
    """What was sent on a link and has no outcome yet."""

    @property
    def contexts(self) -> Collection[SendContext]:
        """Of all deliveries, oldest first."""


class Link(Protocol):
    """A link of either direction; `is_incoming` and `is_outgoing` tell which of its halves a node may use.

    `accept` or `refuse` answers the attach, at once or later; what was accepted ends with its handler's `on_detach`.
    """

    context: LinkContext
    """Where its messages come from or go to."""
    decision: RouteDecision | None
    """What the policy decided for it; None: no rule of the policy decides (temporary nodes, responses)."""
    counter: LinkCounter | None
    """Where the journal counts what is on it; None: there is no journal."""

    @property
    def incoming(self) -> bool:
        """The other end is the sender."""
    @property
    def name(self) -> str: ...
    @property
    def open(self) -> bool:
        """It was accepted and has not ended: only then may messages and outcomes be sent."""
    @property
    def gone(self) -> bool:
        """The other end has left: an attach that still waits for its answer gets none."""
    @property
    def engine(self) -> LinkEngine: ...
    @property
    def scope(self) -> str:
        """The scope whose peer, or whose node, is at the other end."""
    @property
    def user(self) -> str:
        """The authenticated user at the other end; empty: the gateway itself."""
    @property
    def requester(self) -> Requester:
        """Whose messages it carries."""
    @property
    def address(self) -> str | None:
        """The address that the attach asked for."""
    @property
    def source(self) -> TerminusFields: ...
    @property
    def target(self) -> TerminusFields: ...
    @property
    def properties(self) -> Mapping[Any, Any]: ...
    @property
    def fence(self) -> int:
        """Greater for every later owner of the link's name: an earlier one cannot take a position back. 0: no owner."""
    @property
    def offset_group(self) -> str | None:
        """The Kafka group that shows its position in a topic; None: one that is named after its terminus."""
    @property
    def filter_rules(self) -> Rules | None:
        """How its filters are to be read; None: as `gateway.filters.parse.filter_set.RULES`."""
    @property
    def presettled(self) -> bool:
        """The attach asked for settled messages alone."""
    @property
    def draining(self) -> bool:
        """The receiver waits for messages or for the end of its credit (AMQP 1.0 part 2, 2.6.7)."""

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
        understands: frozenset[bytes] = ROUTING,
    ) -> None:
        """Answer the attach; from here on `handler` gets what happens on the link (`link.Link.accept`)."""

    def refuse(self, error: AmqpError) -> None:
        """Answer the attach with an error."""

    def detach(self, error: AmqpError | None = None) -> None:
        """End the link for good; `on_detach` is called before this returns."""

    def withdraw(self, error: AmqpError) -> None:
        """End what the policy or a backend has taken away; what came and has no outcome gets one first."""


class MessageOrigin(Protocol):
    """Where a message came from, and where its outcome goes: a link, or what stands for it while copies are sent."""

    @property
    def context(self) -> LinkContext: ...
    @property
    def requester(self) -> Requester: ...
    @property
    def scope(self) -> str: ...
    @property
    def open(self) -> bool: ...
    @property
    def rejects(self) -> bool:
        """Whether the sender understands the outcome `rejected`."""

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """Give a delivery its outcome; nothing happens where the link is gone."""

    def drop(self, delivery: Delivery) -> None:
        """Let go of a delivery that came settled and that nobody can take."""

    def fail(self, error: AmqpError) -> None:
        """A message that came settled cannot be refused: the link that carried it ends, unless others need it."""

    def tag(self, delivery: Delivery) -> bytes:
        """The delivery-tag; empty where the link is gone."""

    def message_refused(self, error: AmqpError) -> None:
        """One message was refused: for the operator's log and counters."""


class IncomingLink(Link, MessageOrigin, Protocol):
    """The half of a link on which the other end sends: credit, deliveries and their outcomes."""

    @property
    def granted(self) -> int:
        """Credit given and not used yet, in messages."""

    def grant(self, credit: int) -> None:
        """Let the other end send `credit` more messages."""


class TargetTerminus(Protocol):
    """The target of a receiver, as far as it decides how messages have to change."""

    @property
    def capabilities(self) -> Collection[str]: ...
    @property
    def address(self) -> str | None: ...


class MessageTarget(Protocol):
    """Where a message goes to, as far as it decides how the message has to change: a link, or a node of our own."""

    @property
    def context(self) -> LinkContext: ...
    @property
    def target(self) -> TargetTerminus: ...
    @property
    def address(self) -> str | None: ...
    @property
    def announcement_counts(self) -> bool:
        """Whether the container around the target may get response annotations at all (RA 2.1)."""


class OutgoingLink(Link, Protocol):
    """The half of a link on which we send: the receiver's credit, messages and the outcomes of what was sent."""

    leaving: Callable[[Any, Callable[[], None]], bytes | None] | None
    """How requests in a topic become what this receiver may get (`gateway.routing.topic_requests`); None: as is."""

    @property
    def announcement_counts(self) -> bool:
        """As `MessageTarget.announcement_counts`."""
    @property
    def credit(self) -> int:
        """Messages that may be sent now."""
    @property
    def most(self) -> int:
        """The largest message that the receiver takes, in bytes; 0: any."""
    @property
    def window(self) -> int:
        """The credit that the receiver gave, whether or not the connection may send now: cheaper than `credit`."""
    @property
    def left(self) -> DetachKind | None:
        """How the link ended, valid in `on_detach`; None: no peer is at the other end."""
    @property
    def unsettled(self) -> Unsettled:
        """What was sent and has no outcome yet."""
    @property
    def unsettled_bytes(self) -> int:
        """The size of that, in bytes."""
    @property
    def keeps_too_much(self) -> bool:
        """So much is kept for the receiver that nothing may be sent; `on_credit` follows when it may again."""

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """Send one message that there is credit for; its handler gets `context` back with the outcome."""

    def send_all(self, messages: OutgoingMessages) -> None:
        """Send several messages that there is credit for."""

    def drained(self) -> None:
        """Answer a drain: all that could be sent has been sent."""

    def keep(self, size: int) -> None:
        """So many bytes more (or fewer, below 0) are kept of what the receiver gave back."""

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step that nobody waits for; where it fails, a bug, the link ends and the error is raised."""

    def take_unsettled(self) -> Sequence[SendContext]:
        """The contexts whose outcome will never come, oldest first; for `on_detach`."""


PolicyVerdict: TypeAlias = "Callable[[DecidedLink], AmqpError | None]"
"""After a reload: why a link may not stay under the new policy; None: it may."""
Transform: TypeAlias = Callable[[bytes], bytes]
"""Makes a message fit for the scope it enters: annotates or rewrites it; raises AmqpError to reject it."""
TransformFactory: TypeAlias = Callable[[MessageOrigin, MessageTarget], Transform | None]
"""Decides at the first message how messages of one link change on their way to another; None: not at all."""


def is_incoming(link: Link) -> TypeGuard[IncomingLink]:
    """Whether a node may use the receiving half of a link."""
    return link.incoming


def is_outgoing(link: Link) -> TypeGuard[OutgoingLink]:
    """Whether a node may use the sending half of a link."""
    return not link.incoming

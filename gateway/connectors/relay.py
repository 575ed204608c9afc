"""The relay whose far half is a link to another container, through a connector (DESIGN 3, `relay`).

Each link of a peer has a link of its own at the far container: credit, outcomes, refusals and detaches pass one to
one. When the connector's socket is lost the near link stays, without credit; what was under way gets `modified`
(its outcome is unknown), and when the connector is back the far link is attached anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.engine.proton_data import AttachReply
from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Modified, Outcome, Rejected
from gateway.amqp.message.hop import EVENTS, ROUTING, TARGETED
from gateway.errors import DETACH_FORCED, AmqpError, Fault
from gateway.filters.parse.filter_set import RULES, read
from gateway.filters.predicate import TRUE
from gateway.nodes.direct.endpoints import ReceiverEndpoint, SenderEndpoint
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.direct.receiver_filter import CAPABILITIES, Predicate
from gateway.nodes.link import (
    Delivery,
    IncomingLink,
    MessageOrigin,
    OutgoingLink,
    TransformFactory,
    is_incoming,
    is_outgoing,
)
from gateway.nodes.link import Link as NodeLink
from gateway.nodes.pairs import PAIRED
from gateway.routing.event_annotations import CAPABILITY, LINK_PROPERTIES
from gateway.routing.link_context import RESPONSE_ADDRESS_SUPPORTED, announced_capabilities

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link


class ConnectorPort(Protocol):
    """What a relay needs of its connector."""

    @property
    def name(self) -> str: ...
    @property
    def engine(self) -> Engine | None: ...
    @property
    def routes(self) -> bool: ...
    def join(self, relay: Relay) -> None: ...
    def leave(self, relay: Relay) -> None: ...
    def later(self, seconds: float, call: Callable[[], None]) -> Any: ...
    def remote_context(self, *, home: bool) -> Any: ...
    def when_home(self, near: NodeLink, then: Callable[[AmqpError | None], None]) -> None: ...


_numbers: Final = count(1)
_NOT_HERE: Final = Modified(failed=False, undeliverable=True)
"""The message is for somebody else: not to be sent here again (AMQP 3.4.5)."""
ATTACH_PATIENCE: Final = 5.0
"""Seconds an attach may wait for the far container: to be connected, and to answer."""


def comes_home(near: NodeLink, scope: str) -> bool:
    """Whether responses to what `near` sends have to come back through this gateway from a container in `scope`.

    In one scope the container reaches the reply-to by itself, but for `$me` (RA-2.3-8).
    """
    return near.incoming and (near.context.scope != scope or near.context.pair is not None)


class RemoteNode:
    """An address at the container behind a connector."""

    def __init__(self, dialer: ConnectorPort, address: str, make_transform: TransformFactory) -> None:
        self._dialer, self._address, self._make_crossing = dialer, address, make_transform

    def attach(self, link: NodeLink) -> None:
        Relay(self._dialer, self._address, link, self._make_crossing).start()


class Relay(DirectNode):
    """A near link and its far half: a meeting point of exactly two."""

    def __init__(
        self,
        dialer: ConnectorPort,
        address: str,
        near: NodeLink,
        make_transform: TransformFactory,
        asked: str | None = None,
    ) -> None:
        """`asked`: what the peer has named, if it is not the address of `near`."""
        super().__init__(address, make_transform, unused=lambda _: None)
        self._renamed: Final = (asked or near.address) != address
        """The container's words may be about an address that the peer does not know."""
        self._dialer: Final = dialer
        self.near: Final = near
        self.far: Link | None = None
        self._accepted = False
        self._sifted = False
        """Messages of the far container were not wanted, so that a drain may have to ask again."""
        self._timer: Any = None

    def start(self) -> None:
        """Ask the far container; the near attach is answered when it has answered."""
        self._dialer.join(self)
        self._timer = self._dialer.later(ATTACH_PATIENCE, self._gave_up)
        if self._dialer.engine is not None:
            self.connect(self._dialer.engine)

    def connect(self, engine: Engine) -> None:
        """Attach the far half, once it is known where responses come home; also when the connector is back."""

        def reach(error: AmqpError | None) -> None:
            if error is not None:
                self.refused(error)
            elif not engine.closed:
                self._reach(engine)

        self._dialer.when_home(self.near, reach)

    def _reach(self, engine: Engine) -> None:
        near = self.near
        far = engine.attach(self._far_name(), incoming=not near.incoming)
        end = _FarInlet(self, far) if far.incoming else (_RenamedOutlet if self._renamed else _FarOutlet)(self, far)
        wish = near.source if far.incoming else near.target
        own = self._honours() if far.incoming else ()
        far.unannounced = far.incoming and not own
        far.request(
            end,
            AttachReply(
                address=self.address,
                capabilities=wish.capabilities,
                properties=self._shared(near.properties),
                filter=wish.filter,
                distribution_mode=wish.distribution_mode,
                own=own,
                max_message_size=_smaller(engine.config.max_message_size, near.most) if is_outgoing(near) else 0,
            ),
        )

    def _honours(self) -> tuple[str, ...]:
        """What our target there announces: annotations are honoured where they cross, or their receiver knows them.

        Otherwise a message that has them ends the link (RA-2.3-3).
        """
        if not self._dialer.routes:
            return ()
        crosses = not self._same_scope and self.near.context.replies != "none"
        capable = RESPONSE_ADDRESS_SUPPORTED in self.near.target.capabilities
        return (RESPONSE_ADDRESS_SUPPORTED,) if crosses or capable else ()

    def _far_name(self) -> str:
        """A name that is new there: a peer's own may hold addresses (RA 1), and be longer than a frame there."""
        return f"link-{next(_numbers)}"

    @property
    def _same_scope(self) -> bool:
        return bool(self.near.context.scope == self._dialer.remote_context(home=False).scope)

    def _shared(self, properties: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What the other half hears of link properties: in another scope those of event streams only (RA 1).

        A pair is one of links between two containers: that the near link is half of one says nothing there.
        """
        if self._same_scope:
            return {name: value for name, value in properties.items() if name != PAIRED}
        return {name: value for name, value in properties.items() if name in LINK_PROPERTIES}

    @property
    def attended(self) -> bool:
        """The container is there, or will be again."""
        return True

    # -- the far half answers

    def attached(self, end: SenderEndpoint | ReceiverEndpoint, far: Link) -> None:
        far.context = self._dialer.remote_context(home=comes_home(self.near, far.scope))
        self.far = far
        if CAPABILITY in far.engine.offered:
            far.understands = EVENTS
        self.join(end)
        if not self._accepted:
            self._accept_near(far)
        if not self.near.open:  # the peer has left while the far container was asked
            far.detach()
            return
        self.distribute_credit()
        if isinstance(end, ReceiverEndpoint):
            self.credited(end)

    def _accept_near(self, far: Link) -> None:
        """Answer the near attach with what the far container really gave."""
        near = self.near
        given = far.source if far.incoming else far.target
        try:
            in_force, predicate = self._filters(given.filter)
        except AmqpError as error:
            self.refused(error)
            return
        self._answered()
        near_end = self._near_end(predicate)
        self.join(near_end)
        announced = dict.fromkeys((*given.capabilities, *CAPABILITIES))
        near.accept(
            near_end,
            capabilities=self._announced(near, far, given.capabilities) if near.incoming else announced,
            properties=self._shared(far.properties),
            filter=in_force,
            distribution_mode=given.distribution_mode,
            max_message_size=_smaller(near.engine.config.max_message_size, far.most),
            understands=TARGETED if CAPABILITY in far.engine.offered else ROUTING,
        )

    def _near_end(self, predicate: Predicate) -> SenderEndpoint | ReceiverEndpoint:
        near = self.near
        if is_incoming(near):
            return SenderEndpoint(self, near)
        assert is_outgoing(near)
        return ReceiverEndpoint(self, near, predicate)

    def _filters(self, far: Mapping[Any, Any]) -> tuple[dict[Any, Any], Predicate]:
        """What is in force: filters that the far container applies, and those of the others that are known here."""
        if self.near.incoming:
            return dict(far), TRUE
        own = {name: value for name, value in self.near.source.filter.items() if far.get(name) != value}
        rest = read(own, self.near.filter_rules or RULES)
        return {**far, **rest.in_force}, rest.predicate

    def unwanted(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None:
        """The near receiver's filter does not match: others at the far container may want the message."""
        self._sifted = True
        far = self.far
        copied = far is not None and far.source.distribution_mode == "copy"
        if settled:
            link.settle(delivery, SETTLED)
        else:
            link.settle(delivery, ACCEPTED if copied else _NOT_HERE)
        if far is None or not far.draining:
            self.distribute_credit()

    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        """A drain goes past what is not wanted: the near receiver's credit may be good for more."""
        super().transfer(link, delivery, data, settled)
        far, near = self.far, self.near
        drained = self.receivers.filtered and far is not None and far.draining and not far.granted
        if drained and far is not None and is_outgoing(near) and near.credit > 0:
            self._drain_again(far)

    def credit_used(self, inlet: SenderEndpoint) -> None:
        if not inlet.link.draining:  # credit would end the drain
            super().credit_used(inlet)

    def _drain_again(self, far: Link) -> None:
        self._sifted = False
        self.distribute_credit()
        far.drain()

    @staticmethod
    def _announced(near: NodeLink, far: Link, given: Iterable[str]) -> tuple[str, ...]:
        """What the far target announced, less what the near scope does not; crossing is ours to honour (RA-2.2-4)."""
        others = tuple(name for name in given if name != RESPONSE_ADDRESS_SUPPORTED)
        crosses = near.context.scope != far.context.scope
        honours = near.context.announces and (crosses or RESPONSE_ADDRESS_SUPPORTED in given)
        return others + announced_capabilities(near, honours)

    def refused(self, error: AmqpError) -> None:
        """The far container refuses the link: so does the near node, in the same words to a peer that may hear them."""
        self._dialer.leave(self)
        if self._renamed:
            error.of_nobody()
        if self._accepted:
            self.near.detach(error)
        else:
            self._answered()
            self.near.refuse(error)

    def _gave_up(self) -> None:
        engine = self._dialer.engine
        missing = "is not connected" if engine is None else "does not answer"
        text = f"the container behind this address {missing}; try again"
        self.refused(AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND))

    def _answered(self) -> None:
        self._accepted = True
        self._timer.cancel()

    # -- either half ends

    def leave_sender(self, inlet: SenderEndpoint) -> None:
        super().leave_sender(inlet)
        self._half_left(inlet.link)

    def leave_receiver(self, outlet: ReceiverEndpoint) -> None:
        super().leave_receiver(outlet)
        self._half_left(outlet.link)

    def _half_left(self, link: IncomingLink | OutgoingLink) -> None:
        if link is self.near:
            self._dialer.leave(self)
            if self.far is not None:
                self.far.detach()
        else:
            self.far = None

    def far_ended(self, error: AmqpError | None) -> None:
        """The far container detached the link (not: the socket was lost)."""
        self._dialer.leave(self)
        self.near.detach(error.of_nobody() if self._renamed and error is not None else error)

    def drain(self, outlet: ReceiverEndpoint) -> None:
        """A near receiver's drain is the far sender's to answer: it may have messages."""
        self._sifted = False
        if outlet.link is self.near and self.far is not None and self.far.granted > 0:
            self.far.drain()
        else:
            outlet.link.drained()

    def far_drained(self) -> None:
        near = self.near
        if near.draining and self._sifted and self.far is not None:
            self._drain_again(self.far)
        elif near.draining and is_outgoing(near):
            near.drained()


class _FarOutlet(ReceiverEndpoint):
    """Our sending link at the far container."""

    def __init__(self, relay: Relay, link: Link) -> None:
        super().__init__(relay, link)
        self._relay = relay

    def on_attached(self, link: Link) -> None:
        self._relay.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._relay.refused(error)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        if self.link.engine.opened and not self.link.engine.closed:
            self._relay.far_ended(error)


class _RenamedOutlet(_FarOutlet):
    """The same, at an address that the peer has not named."""

    def on_outcome(self, context: Any, outcome: Outcome) -> None:
        if isinstance(outcome, Rejected) and outcome.error is not None:
            outcome.error.of_nobody()
        super().on_outcome(context, outcome)


class _FarInlet(SenderEndpoint):
    """Our receiving link at the far container."""

    def __init__(self, relay: Relay, link: Link) -> None:
        super().__init__(relay, link)
        self._relay = relay

    def on_attached(self, link: Link) -> None:
        self._relay.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._relay.refused(error)

    def on_drained(self) -> None:
        self._relay.far_drained()

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        if self.link.engine.opened and not self.link.engine.closed:
            self._relay.far_ended(error)


def _smaller(ours: int, theirs: int) -> int:
    """The largest message that both take; 0: any."""
    return min(filter(None, (ours, theirs)), default=0)

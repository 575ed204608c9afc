"""A relay to a node of another container, through a connector (`relay` in an address rule).

Each link of a peer, the local link, has a link of its own at the container, the remote link: credit, outcomes, refusals
and detaches pass from one to the other. When the connector loses its connection, the local link stays, without credit;
unsettled messages get `modified`, since their outcome is unknown, and the remote link is attached again on the next
connection. `relay_states` has the transitions.
"""

from __future__ import annotations

from asyncio import TimerHandle
from itertools import count
from typing import TYPE_CHECKING, Final

from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Modified
from gateway.amqp.message.hop import EVENTS, ROUTING, TARGETED
from gateway.amqp.proton.proton_data import AttachReply, TerminusFields
from gateway.connectors.attach_mapping import (
    announced,
    filters_in_force,
    oversized,
    own_capabilities,
    remote_request,
    smaller,
    visible_properties,
)
from gateway.connectors.port import ConnectorPort, needs_response_routing
from gateway.connectors.relay_states import TRANSITIONS, RelayAction, RelayEvent, RelayState
from gateway.connectors.remote_endpoints import RemoteReceiver, RemoteSender, RenamedReceiver
from gateway.connectors.transactions.node import TransactedNode
from gateway.errors import DETACH_FORCED, AmqpError, Fault
from gateway.links.link import (
    Delivery,
    IncomingLink,
    MessageOrigin,
    NodeLink,
    OutgoingLink,
    TransformFactory,
    is_incoming,
    is_outgoing,
)
from gateway.nodes.direct.endpoints import ReceiverEndpoint, SenderEndpoint
from gateway.nodes.direct.receiver_filter import CAPABILITIES, Predicate
from gateway.routing.event_annotations import CAPABILITY

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link


_numbers: Final = count(1)
_NOT_HERE: Final = Modified(failed=False, undeliverable=True)
"""The message is for another receiver: it must not be sent here again (AMQP 3.4.5)."""
ATTACH_PATIENCE: Final = 5.0
"""Seconds that an attach waits for the container to be connected and to answer."""


def _filtering(given: TerminusFields) -> tuple[str, ...]:
    """The capabilities of a source of the container, with the filters that the gateway applies."""
    return tuple(dict.fromkeys((*given.capabilities, *CAPABILITIES)))


class RemoteNode:
    """A node at an address of the container behind a connector."""

    def __init__(self, connector: ConnectorPort, address: str, make_transform: TransformFactory) -> None:
        self._connector, self._address, self._make_transform = connector, address, make_transform

    def attach(self, link: NodeLink) -> None:
        """Attach a remote link at the container; `link` is answered after it."""
        Relay(self._connector, self._address, link, self._make_transform).start()


class Relay(TransactedNode):
    """A local link and its remote link: a direct node of exactly two links."""

    def __init__(
        self,
        connector: ConnectorPort,
        address: str,
        local: NodeLink,
        make_transform: TransformFactory,
        requested: str | None = None,
    ) -> None:
        """`requested`: the address that the peer named, if it is not that of `local`."""
        super().__init__(address, make_transform, connector.transactions)
        self._renamed: Final = (requested or local.address) != address
        """Whether errors of the container may name an address that the peer does not know."""
        self._connector: Final = connector
        self.local: Final = local
        self._local_receiver: Final = local if is_outgoing(local) else None
        self.remote: Link | None = None
        self._requested: Link | None = None
        """The link of our last attach that the container has not answered."""
        self._relay_state = RelayState.ATTACHING
        self._skipped = False
        """Whether the filter skipped messages of the container, so that it may have to be drained again."""
        self._timer: TimerHandle | None = None

    # -- the state

    def _after(self, event: RelayEvent) -> RelayAction:
        """Take the transition for an event; returns the action."""
        before = self._relay_state
        self._relay_state, action = TRANSITIONS[before, event]
        if self._relay_state is not before:
            if before is RelayState.ATTACHING and self._timer is not None:
                self._timer.cancel()
            if self._relay_state is RelayState.ENDED:
                self._connector.leave(self)
                self._abandon()
        return action

    def _abandon(self) -> None:
        """The answer to an attach of ours matters no more: it will be detached when it comes."""
        requested, self._requested = self._requested, None
        if requested is not None and not requested.engine.closed:
            requested.engine.abandon(requested)

    def start(self) -> None:
        """Attach the remote link; the local attach is answered after it, or after `ATTACH_PATIENCE`."""
        self._connector.join(self)
        self._timer = self._connector.later(ATTACH_PATIENCE, self._timed_out)
        if self._connector.engine is not None:
            self.connect(self._connector.engine)

    def connect(self, engine: Engine) -> None:
        """The connector is connected: attach the remote link once responses can be received."""

        def returnable(error: AmqpError | None) -> None:
            if error is not None:
                self.refused(error)
            elif not engine.closed and self._after(RelayEvent.ROUTABLE) is RelayAction.ATTACH_REMOTE:
                self._attach_remote(engine)

        if self._after(RelayEvent.CONNECTED) is RelayAction.FIND_RETURN:
            self._connector.when_returnable(self.local, returnable)

    def attached(self, end: SenderEndpoint | ReceiverEndpoint, remote: Link) -> None:
        """The container has answered the attach of the remote link."""
        self._requested = None
        action = self._after(RelayEvent.ATTACHED)
        routes = needs_response_routing(self.local, remote.scope)
        remote.context = self._connector.remote_context(routes_responses=routes)
        self.remote = remote
        self.join(end)
        if action is RelayAction.ACCEPT_LOCAL:
            self._accept_local(remote)
        if not self.local.open:  # the peer has left meanwhile
            remote.detach()
            return
        self.distribute_credit()
        if isinstance(end, ReceiverEndpoint):
            self.credited(end)

    def refused(self, error: AmqpError) -> None:
        """The container refuses the link: refuse the local link with the same error, as far as the peer may see it."""
        self._requested = None
        self._end_local(self._after(RelayEvent.REFUSED), error)

    def _timed_out(self) -> None:
        missing = "is not connected" if self._connector.engine is None else "does not answer"
        text = f"the container behind this address {missing}; try again"
        error = AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)
        self._end_local(self._after(RelayEvent.TIMED_OUT), error)

    def remote_ended(self, remote: Link, error: AmqpError | None) -> None:
        """The remote link has ended: the container has detached it, or the connection was lost."""
        connected = remote.engine.opened and not remote.engine.closed
        self._end_local(self._after(RelayEvent.REMOTE_DETACHED if connected else RelayEvent.REMOTE_LOST), error)

    def _end_local(self, action: RelayAction, error: AmqpError | None) -> None:
        if self._renamed and error is not None:
            error.of_nobody()
        self._tell_local(action, error)

    def _tell_local(self, action: RelayAction, error: AmqpError | None) -> None:
        if action is RelayAction.REFUSE_LOCAL:
            text = "the container has ended the link without a reason"
            self.local.refuse(error or AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND))
        elif action is RelayAction.DETACH_LOCAL:
            self.local.detach(error)

    def leave_sender(self, sender: SenderEndpoint) -> None:
        super().leave_sender(sender)
        self._left_by(sender.link)

    def leave_receiver(self, receiver: ReceiverEndpoint) -> None:
        super().leave_receiver(receiver)
        self._left_by(receiver.link)

    def _left_by(self, link: IncomingLink | OutgoingLink) -> None:
        if link is not self.local:
            self.remote = None
        elif self._after(RelayEvent.LOCAL_ENDED) is RelayAction.DETACH_REMOTE and self.remote is not None:
            self.remote.detach()

    # -- the remote attach

    def _attach_remote(self, engine: Engine) -> None:
        local, incoming, same = self.local, not self.local.incoming, self._same_scope
        own = own_capabilities(local, same_scope=same) if incoming and self._connector.routes else ()
        request = remote_request(local, engine, self.address, own, same_scope=same)
        if (error := oversized(engine.peer.max_frame_size, request)) is not None:
            self.refused(error)
            return
        self._requested = remote = engine.attach(self._remote_name(), incoming=incoming)
        remote.unannounced = remote.incoming and not own
        if CAPABILITY in engine.offered:
            remote.understands = EVENTS
        remote.request(self._remote_end(remote), request)

    def _remote_end(self, remote: Link) -> RemoteSender | RemoteReceiver:
        if remote.incoming:
            return RemoteSender(self, remote)
        return (RenamedReceiver if self._renamed else RemoteReceiver)(self, remote)

    def _remote_name(self) -> str:
        """A new link name: that of the peer may contain addresses (RA 1), and be longer than a frame."""
        return f"link-{next(_numbers)}"

    @property
    def _same_scope(self) -> bool:
        return self.local.context.scope == self._connector.remote_context(routes_responses=False).scope

    @property
    def attended(self) -> bool:
        """True: the connector reconnects."""
        return True

    # -- the local attach

    def _accept_local(self, remote: Link) -> None:
        """Answer the local attach with the container's answer."""
        local = self.local
        given = remote.source if remote.incoming else remote.target
        try:
            in_force, predicate = filters_in_force(local, given.filter)
            properties = visible_properties(remote.properties, same_scope=self._same_scope)
            capabilities = announced(local, remote, given.capabilities) if local.incoming else _filtering(given)
            answer = AttachReply(local.address, capabilities, properties, in_force)
            if (error := oversized(local.engine.peer.max_frame_size, answer, local.name)) is not None:
                raise error
        except AmqpError as error:
            self._tell_local(self._after(RelayEvent.UNANSWERABLE), error)
            return
        end = SenderEndpoint(self, local) if is_incoming(local) else self._receiver_endpoint(predicate)
        self.join(end)
        local.accept(
            end,
            capabilities=capabilities,
            properties=properties,
            filter=in_force,
            distribution_mode=given.distribution_mode,
            max_message_size=smaller(local.engine.config.max_message_size, remote.most),
            understands=TARGETED if CAPABILITY in remote.engine.offered else ROUTING,
        )

    def _receiver_endpoint(self, predicate: Predicate) -> ReceiverEndpoint:
        assert self._local_receiver is not None
        return ReceiverEndpoint(self, self._local_receiver, predicate)

    # -- messages and drains

    def unwanted(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None:
        """The local receiver's filter does not match: others at the container may want the message."""
        self._skipped = True
        remote = self.remote
        copied = remote is not None and remote.source.distribution_mode == "copy"
        if settled:
            link.settle(delivery, SETTLED)
        else:
            link.settle(delivery, ACCEPTED if copied else _NOT_HERE)
        if remote is None or not remote.draining:
            self.distribute_credit()

    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Continue a drain after skipped messages: the local receiver may have credit left."""
        super().transfer(link, delivery, data, settled)
        remote, receiver = self.remote, self._local_receiver
        if not self.receivers.filtered or remote is None or receiver is None:
            return
        if remote.draining and not remote.granted and receiver.credit > 0:
            self._drain_again(remote)

    def credit_used(self, sender: SenderEndpoint) -> None:
        if not sender.link.draining:  # credit would end the drain
            super().credit_used(sender)

    def drain(self, receiver: ReceiverEndpoint) -> None:
        """Pass a local receiver's drain on to the remote sender, which may have messages."""
        self._skipped = False
        if receiver.link is self.local and self.remote is not None and self.remote.granted > 0:
            self.remote.drain()
        else:
            receiver.link.drained()

    def remote_drained(self) -> None:
        """The container has answered a drain."""
        receiver = self._local_receiver
        if receiver is None or not receiver.draining:
            return
        if self._skipped and self.remote is not None:
            self._drain_again(self.remote)
        else:
            receiver.drained()

    def _drain_again(self, remote: Link) -> None:
        self._skipped = False
        self.distribute_credit()
        remote.drain()

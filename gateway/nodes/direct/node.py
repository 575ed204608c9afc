"""The direct node, which passes messages from senders to receivers and stores nothing (docs/design.md, `direct`).

Credit is the only flow control: senders get equal shares of what receivers grant. A message that comes while no
receiver has credit (a share was given twice, or a receiver left) waits here, so the credit given bounds the waiting
messages. Outcomes go back unchanged; nothing is accepted before the receiver has accepted it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakSet

from gateway.amqp.link.outcomes import RELEASED
from gateway.amqp.link.transactions import Enlisting, PostedMessage, Retirement
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.links.link import Delivery, MessageOrigin, NodeLink, TransformFactory, is_incoming, is_outgoing
from gateway.links.link_context import LinkContext, announced_capabilities
from gateway.links.reject import reject_delivery
from gateway.nodes.direct.backlog import Backlog, Soon
from gateway.nodes.direct.endpoints import ReceiverEndpoint, ReceiverGroup, SenderEndpoint
from gateway.nodes.direct.pending_cookies import PendingCookieQueue
from gateway.nodes.direct.queue import UNREAD, MessageSource, WaitingMessage, WaitingMessages
from gateway.nodes.direct.receiver_filter import CAPABILITIES, filters_of, source_of
from gateway.nodes.direct.receivers import Receivers
from gateway.nodes.direct.returnable import send
from gateway.nodes.direct.sender_credit import SenderCredit
from gateway.nodes.direct.state import Facts, NodeEvent, NodeState, next_state
from gateway.routing.cookie_offload import CookieOffload
from gateway.transactions.buffered import DIRECT_NODES, BufferedMessage


class DirectNode:
    """A direct node; `unused` is called when the last link has left."""

    named_here = False
    """The gateway chose the address, so the answer to an attach names it."""

    def __init__(
        self,
        address: str,
        make_transform: TransformFactory,
        *,
        unused: Callable[[DirectNode], None],
        node_properties: dict[Any, Any] | None = None,
        soon: Soon | None = None,
    ) -> None:
        """`soon`: schedules work that is too long for one turn of the loop; None: the node has few links."""
        self.address: Final = address
        self.make_transform: Final = make_transform
        self._unused: Final = unused
        self._node_properties: Final = node_properties
        self.receivers: Final = Receivers()
        self.soon: Final = soon
        self.sender_credit: Final = SenderCredit(soon)
        self.waiting: Final = WaitingMessages()
        self._backlog: Final = Backlog(self.waiting, soon)
        self.state = NodeState.UNATTENDED
        self.sole_receiver: ReceiverEndpoint | None = None
        """The receiver that gets everything (`NodeState.SOLE`)."""
        self.coming = 0
        """Messages of a batch behind the present one: their senders have used credit for them already."""
        self._holding: Final = PendingCookieQueue()
        self._own_transforms: dict[LinkContext, WeakSet[ReceiverEndpoint]] = {}
        """The receivers that have a transform for one sender alone, by the context of that sender."""

    def _move(self, event: NodeEvent) -> None:
        """Take the transition for an event, and update `sole_receiver`."""
        state = next_state(self.state, event, self._facts())
        if state is self.state:
            return
        if (sole := self.sole_receiver) is not None:
            self.sole_receiver = None
            if sole in self.receivers.all:
                self.receivers.count(sole)
        self.state = state
        if state is NodeState.SOLE:
            self.sole_receiver = next(iter(self.receivers.all))

    def _facts(self) -> Facts:
        receivers, held = self.receivers, self._holding.message
        return Facts(
            len(receivers.all), not receivers.filtered, bool(self.waiting), held is not None and not held.gone
        )

    @property
    def sender_endpoints(self) -> Sequence[SenderEndpoint]:
        """The senders."""
        return list(self.sender_credit.all)

    @property
    def receiver_endpoints(self) -> Sequence[ReceiverEndpoint]:
        """The receivers."""
        return list(self.receivers.all)

    # -- links

    @property
    def attended(self) -> bool:
        """Whether there is a receiver."""
        return bool(self.receivers.all)

    def post(self, link: MessageOrigin, post: PostedMessage, data: bytes) -> None:
        """Take a message in a transaction: it is passed on when that is committed (KM-14)."""
        post.transaction.enlist(DIRECT_NODES).hold(BufferedMessage(self, link, post, data))

    def retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """A receiver gives a message an outcome in a transaction: its sender gets it when that is committed."""
        transaction.enlist(DIRECT_NODES)

    def acquire(self, transaction: Enlisting) -> None:
        """A receiver acquires messages in a transaction: their senders get `released` after a rollback."""
        transaction.enlist(DIRECT_NODES)

    def attach(self, link: NodeLink) -> None:
        """Take a link of either direction; raises AmqpError for filters that are refused."""
        if is_incoming(link):
            self.join(sender := SenderEndpoint(self, link))
            self._accept(link, sender, announced_capabilities(link, link.context.announces), None)
        elif is_outgoing(link):
            try:
                filters = filters_of(link)
            except AmqpError:
                self._left()  # the node may have been made for this link
                raise
            self.join(receiver := ReceiverEndpoint(self, link, filters.predicate))
            self._accept(link, receiver, CAPABILITIES, filters.in_force)
        self.distribute_credit()

    def _accept(
        self,
        link: NodeLink,
        end: SenderEndpoint | ReceiverEndpoint,
        capabilities: Iterable[str],
        filters: Mapping[Any, Any] | None,
    ) -> None:
        link.accept(
            end,
            address=self.address if self.named_here else None,
            capabilities=capabilities,
            filter=filters,
            max_message_size=link.engine.config.max_message_size,
            node_properties=self._node_properties,
        )

    def join(self, end: SenderEndpoint | ReceiverEndpoint) -> None:
        """Add a sender or receiver; the caller answers its attach."""
        if isinstance(end, SenderEndpoint):
            self.sender_credit.join(end)
        else:
            self._join_receiver(end)

    def _join_receiver(self, receiver: ReceiverEndpoint) -> None:
        group = self.receivers.join(receiver)
        self._move(NodeEvent.RECEIVER_JOINED)
        if group is not None and self.waiting:
            self._catch_up(group)
            self._move(NodeEvent.SETTLED_DOWN)

    def _catch_up(self, group: ReceiverGroup) -> None:
        """Evaluate the filter of a new group on the waiting messages."""
        self._backlog.catch_up(group, self.takes, self.serve)

    def takes(self, group: ReceiverGroup, message: WaitingMessage) -> bool:
        """Whether a new group takes a waiting message."""
        if message.source is UNREAD:
            message.source = source_of(message.data)
        return message is not self._holding.message and group.takes(message.source)

    def has_own_transform(self, context: LinkContext, receiver: ReceiverEndpoint) -> None:
        """A receiver has a transform for one sender only."""
        self._own_transforms.setdefault(context, WeakSet()).add(receiver)

    def leave_sender(self, sender: SenderEndpoint) -> None:
        """A sender has left; its settled messages are still delivered, because it cannot send them again."""
        self.sender_credit.leave(sender)
        for receiver in self._own_transforms.pop(sender.link.context, ()):
            receiver.forget(sender.link)
        self.peer_left(sender.link)
        self.settle_down()
        self._left()

    def peer_left(self, link: MessageOrigin) -> None:
        """The peer of a link has left: release its waiting unsettled messages, and charge the settled ones."""
        self.give_back(link)  # reaches the sender if the link is inside another one
        for message in self.waiting.left_by(link):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, True)

    def give_back(self, link: MessageOrigin) -> None:
        """Release the waiting unsettled messages of a link."""
        for message in self.waiting.unsettled_of(link):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, False)

    def leave_receiver(self, receiver: ReceiverEndpoint) -> None:
        """A receiver has left; messages that only it would have taken are released."""
        for message in self.receivers.leave(receiver):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, message.settled)
        self.settle_down()
        self._left()

    def _left(self) -> None:
        if not self.sender_credit.all and not self.receivers.all and self.state is not NodeState.CLOSED:
            self._move(NodeEvent.LAST_LINK_LEFT)
            self._unused(self)

    def close(self, error: AmqpError | None = None) -> None:
        """Detach all links of a removed node: receivers first, so that senders get the outcomes of their messages."""
        reason = error or AmqpError(RESOURCE_DELETED, "the node at this address was removed")
        self._move(NodeEvent.REMOVED)
        ends: list[ReceiverEndpoint | SenderEndpoint] = [*self.receiver_endpoints, *self.sender_endpoints]
        for end in ends:
            end.link.detach(reason)

    # -- messages

    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Pass on a message from `link`, or let it wait for credit."""
        receivers = self.receivers
        source: MessageSource = UNREAD
        groups: Collection[ReceiverGroup] = receivers.groups.values()
        if receivers.filtered:
            source = source_of(data)
            groups = receivers.matching_groups(source)
        if not groups:
            (self.unwanted if receivers.all else self.undeliverable)(link, delivery, settled)
        elif (receiver := self._ready(groups)) is not None:
            receivers.spend(receiver)
            self.forward(receiver, link, delivery, data, settled)
        else:
            self.wait(WaitingMessage(link, delivery, data, settled, source), groups)

    def _ready(self, groups: Iterable[ReceiverGroup]) -> ReceiverEndpoint | None:
        """The receiver for a message now; None: it has to wait."""
        if self._holding.message is not None:
            return None
        receiver = self.receivers.pick(groups)
        return receiver if receiver is not None and receiver.group.queue.first is None else None

    def wait(self, message: WaitingMessage, groups: Iterable[ReceiverGroup], *, first: bool = False) -> None:
        """Let a message wait for credit of one of `groups`."""
        self.waiting.add(message, [group.queue for group in groups], first=first)
        if self.state is NodeState.SOLE:
            self._move(NodeEvent.MESSAGE_WAITS)
        self._holding.defer(groups)

    def unwanted(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None:
        """No receiver's filter matches: treat the message as if there were no receiver."""
        self.undeliverable(link, delivery, settled)
        self.distribute_credit()

    def forward(
        self, receiver: ReceiverEndpoint, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool
    ) -> None:
        """Send to one receiver; the sender's delivery waits for that receiver's outcome."""
        target, original = receiver.link, data
        if (context := link.context) is not target.context:
            try:
                same = receiver.last_context is context and receiver.last_requester is link.requester
                transform = receiver.last if same else receiver.transform_for(link)
                if transform is not None:
                    data = transform(data)
            except AmqpError as error:
                reject_delivery(link, delivery, error.of(context.scope), settled)
                self.distribute_credit()
                return
            except CookieOffload as wait:
                self.hold(wait, receiver, WaitingMessage(link, delivery, data, settled))
                return
        send(self, target, link, delivery, data, settled, original)

    def take_back(self, link: MessageOrigin, delivery: Delivery, data: bytes) -> None:
        """A settled message is available again: the transaction was rolled back in which a receiver had acquired it."""
        self.transfer(link, delivery, data, True)
        if not link.open:
            self.peer_left(link)

    def hold(self, wait: CookieOffload, receiver: ReceiverEndpoint, message: WaitingMessage) -> None:
        """The cookie of this message must be stored first: it and all later messages wait for that."""
        self._holding.hold(self, wait, receiver, message)
        self._move(NodeEvent.COOKIE_PENDING)

    def undeliverable(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None:
        """There is no receiver that takes the message."""
        if settled:
            link.drop(delivery)
        else:
            link.settle(delivery, RELEASED)

    # -- credit

    def credited(self, receiver: ReceiverEndpoint) -> None:
        """A receiver granted credit or asked for a drain: send waiting messages, then grant the rest to the senders."""
        if self.receivers.count(receiver):
            self.serve(receiver.group)
        self.settle_down()
        if receiver.link.draining:
            self.drain(receiver)

    def serve(self, group: ReceiverGroup) -> None:
        """Send the waiting messages of a group to its receivers that have credit."""
        receivers, queue, holding = self.receivers, group.queue, self._holding
        while holding.message is None and (message := queue.first) is not None:
            if (receiver := receivers.next_of(group)) is None:
                return
            self.waiting.take(message)
            receivers.spend(receiver)
            self.forward(receiver, message.link, message.delivery, message.data, message.settled)
        holding.defer((group,))

    def settle_down(self) -> None:
        """Update the state and the senders' credit after a change."""
        self._move(NodeEvent.SETTLED_DOWN)
        self.sender_credit.distribute(self._free)

    def drain(self, receiver: ReceiverEndpoint) -> None:
        """Answer a drain: nothing is stored, so no more messages can come (row CORE-13)."""
        receiver.link.drained()
        self.receivers.count(receiver)

    def _free(self) -> int:
        """Credit of the receivers beyond the waiting messages and those that have come."""
        return self.supply() - len(self.waiting) - self.coming

    def supply(self) -> int:
        """Credit of all receivers."""
        if (sole := self.sole_receiver) is not None:
            return sole.link.credit
        return self.receivers.supply

    def distribute_credit(self) -> None:
        """Grant the senders equal shares of the receivers' credit."""
        self.sender_credit.distribute(self._free)

    def credit_used(self, sender: SenderEndpoint) -> None:
        """A sender has used about half of its credit."""
        if sender in self.sender_credit.all:
            self.sender_credit.credit_used(sender)
            self.distribute_credit()

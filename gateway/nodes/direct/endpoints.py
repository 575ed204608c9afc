"""The ends of the links at a direct node: senders, receivers, and the groups of receivers with one filter."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from gateway.agenda import Agenda, Soon
from gateway.amqp.link.handlers import BatchIncoming, BatchOutgoing, Transfer
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, Outcome
from gateway.amqp.link.transactions import Enlisting, PostedMessage, Retirement
from gateway.errors import AmqpError
from gateway.filters.evaluate.access import Encoded
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.predicate import TRUE
from gateway.links.link import (
    Delivery,
    IncomingLink,
    MessageOrigin,
    OutgoingLink,
    PolicyVerdict,
    SendContext,
    Transform,
    TransformFactory,
)
from gateway.links.link_context import LinkContext
from gateway.nodes.direct.queue import Queue
from gateway.nodes.direct.receiver_filter import ACCESS, Predicate, Test
from gateway.principal import Requester
from gateway.response.crossing import Crossing, Run
from gateway.routing.announcements import ReceiverKind

_TRANSFORMS: Final = 4096
"""Requesters whose transforms a receiver remembers."""


class EndpointNode(Protocol):
    """What endpoints use of their node."""

    sole_receiver: ReceiverEndpoint | None
    coming: int

    @property
    def soon(self) -> Soon | None:
        """Schedules work that is too long for one turn of the loop; None: all is done at once."""

    @property
    def make_transform(self) -> TransformFactory: ...
    @property
    def attended(self) -> bool: ...
    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None: ...
    def forward(
        self, receiver: ReceiverEndpoint, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool
    ) -> None: ...
    def credit_used(self, sender: SenderEndpoint) -> None: ...
    def distribute_credit(self) -> None: ...
    def post(self, link: MessageOrigin, post: PostedMessage, data: bytes) -> None: ...
    def retire(self, transaction: Enlisting, retirement: Retirement) -> None: ...
    def acquire(self, transaction: Enlisting) -> None: ...
    def give_back(self, link: MessageOrigin) -> None: ...
    def peer_left(self, link: MessageOrigin) -> None: ...
    def leave_sender(self, sender: SenderEndpoint) -> None: ...
    def leave_receiver(self, receiver: ReceiverEndpoint) -> None: ...
    def has_own_transform(self, context: LinkContext, receiver: ReceiverEndpoint) -> None: ...
    def credited(self, receiver: ReceiverEndpoint) -> None: ...


class SenderEndpoint(BatchIncoming):
    """A sender at the node: `link` is the incoming link."""

    __slots__ = ("_node", "left", "level", "link")

    def __init__(self, node: EndpointNode, link: IncomingLink) -> None:
        self._node = node
        self.link = link
        self.left = self.level = 0
        """Messages that it may send until its credit is checked, and its level in `SenderCredit`."""

    def takes_batches(self) -> bool:
        """True: messages to an only receiver are passed on together."""
        return True

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        """`on_transfer` for several; those that need nothing else go to the only receiver in one call."""
        messages = messages if isinstance(messages, list) else list(messages)
        node, link, at, count = self._node, self.link, 0, len(messages)
        try:
            while at < count and link.open:
                first = at
                if (receiver := node.sole_receiver) is not None:
                    at = receiver.forward(link, messages, at)
                    self.left -= at - first
                if at < count:
                    node.coming = count - at - 1
                    self.on_transfer(*messages[at])
                    at += 1
        finally:
            node.coming = 0
        if self.left < 0:
            node.credit_used(self)
        if at < count:  # the link has ended: what is left of the batch uses no credit of the receivers
            node.distribute_credit()

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Send to the only receiver if nothing else is to be done; otherwise the node decides."""
        node, link = self._node, self.link
        receiver = node.sole_receiver
        if receiver is None or settled or (target := receiver.link).window <= 0 or target.engine.blocked:
            node.transfer(link, delivery, data, settled)
        elif target.context is link.context:
            target.send(data, (link, delivery))
        else:
            node.forward(receiver, link, delivery, data, False)
        self.left -= 1
        if self.left < 0:
            node.credit_used(self)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """A message in a transaction (KM-14)."""
        self._node.post(self.link, post, data)

    @property
    def attended(self) -> bool:
        """Whether somebody receives what is sent here."""
        return self._node.attended

    def give_back(self) -> None:
        """The link is about to end: release its waiting messages while the sender can still get outcomes."""
        self._node.give_back(self.link)

    def peer_left(self) -> None:
        """Its peer has left: charge what waits."""
        self._node.peer_left(self.link)

    def on_detach(self, error: AmqpError | None) -> None:
        self._node.leave_sender(self)


class ReceiverEndpoint(BatchOutgoing):
    """A receiver at the node, with the transforms of messages from each origin."""

    __slots__ = (
        "__weakref__", "_forward", "_node", "_several", "_transforms", "counted", "group", "kind", "last",
        "last_context", "last_requester", "link", "predicate", "serial", "turn",
    )  # fmt: skip

    group: ReceiverGroup
    kind: ReceiverKind

    def __init__(self, node: EndpointNode, link: OutgoingLink, predicate: Predicate = TRUE) -> None:
        """`predicate`: the messages that it takes."""
        self.predicate = None if predicate == TRUE else predicate
        self._node = node
        self.link = link
        self._forward = getattr(link, "forward", None)
        """Sends several messages of another link at once; only links of peers have it."""
        self.counted = self.turn = self.serial = 0
        """Its part of `Receivers.supply`; the numbers of its last turn and of its attach."""
        self._transforms: dict[tuple[LinkContext, Requester], Transform | None] = {}
        self.last_context: LinkContext | None = None
        self.last_requester: Requester | None = None
        self.last: Transform | None = None
        """The transform of an origin with `last_context` and `last_requester`."""
        self._several: Run | None = None
        """The same for several messages."""

    def transform_for(self, origin: MessageOrigin) -> Transform | None:
        """How messages of `origin` must be changed for this receiver; decided once per context and requester."""
        context, requester = key = origin.context, origin.requester
        try:
            made = self._transforms[key]
        except KeyError:
            if len(self._transforms) >= _TRANSFORMS:
                self._transforms.clear()
            made = self._transforms[key] = self._node.make_transform(origin, self.link)
            if context.pair is not None:
                self._node.has_own_transform(context, self)
        self.last_context, self.last_requester = context, requester
        self.last, self._several = (made.one, made.several) if isinstance(made, Crossing) else (made, None)
        return self.last

    def forward(self, origin: IncomingLink, messages: list[Transfer], start: int) -> int:
        """Send messages from `start` on that need no decision; returns the index of the first that does."""
        if self._forward is None:
            return start
        if origin.context is self.link.context:
            return int(self._forward(messages, start, origin))
        if self.last_context is not origin.context or self.last_requester is not origin.requester:
            return start
        if self.last is None:
            return int(self._forward(messages, start, origin))
        if self._several is None or self.link.window <= 0 or self.link.engine.blocked:
            return start
        changed = self._several(messages, start, min(len(messages), start + self.link.window))
        return int(self._forward(messages, start, origin, changed)) if changed else start

    def forget(self, origin: MessageOrigin) -> None:
        """A sender with a transform of its own, because of `$me`, has left."""
        self._transforms.pop((origin.context, origin.requester), None)
        self.last_context = None

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """A reload may have changed keys or rules: decide anew at the next message."""
        self._transforms.clear()
        self.last_context = None

    def on_credit(self) -> None:
        self._node.credited(self)

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        link, delivery = context
        link.settle(delivery, outcome)

    def takes_batches(self) -> bool:
        """True, unless a subclass has more to do with an outcome."""
        return type(self).on_outcome is ReceiverEndpoint.on_outcome

    @property
    def owes_outcomes(self) -> bool:
        """The senders wait for them."""
        return True

    def on_accepted(self, contexts: list[SendContext]) -> None:
        """`on_outcome` for several; mostly they are all of one sender."""
        first = contexts[0][0]
        deliveries = [delivery for link, delivery in contexts if link is first]
        if len(deliveries) == len(contexts) and (accept_all := getattr(first, "accept_all", None)) is not None:
            accept_all(deliveries)
            return
        for link, delivery in contexts:
            link.settle(delivery, ACCEPTED)

    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """An outcome in a transaction."""
        self._node.retire(transaction, retirement)

    def on_acquire(self, transaction: Enlisting) -> None:
        """Its messages are acquired in a transaction from now on."""
        self._node.acquire(transaction)

    def on_detach(self, error: AmqpError | None) -> None:
        self._node.leave_receiver(self)
        Agenda(self._node.soon).add(self._failed())

    def _failed(self) -> Iterator[Callable[[], None]]:
        """The outcomes of what is unsettled will never come."""
        for link, delivery in self.link.take_unsettled():
            yield partial(link.settle, delivery, FAILED)


class ReceiverGroup:
    """The receivers with one filter, and the messages that wait for any of them."""

    __slots__ = ("_test", "behind", "members", "predicate", "queue", "ready")

    def __init__(self, predicate: Predicate | None) -> None:
        """`predicate`: the filter; None: they take all messages."""
        self.predicate: Final = predicate
        self._test: Test | None = None
        self.members: Final[dict[ReceiverEndpoint, None]] = {}
        self.ready: Final[OrderedDict[ReceiverEndpoint, None]] = OrderedDict()
        """Those that had credit at the last check, in the order of their turns."""
        self.queue: Final = Queue()
        self.behind = False
        """It has not caught up with the messages that waited before it (`Backlog`), and gets nothing before that."""

    def takes(self, source: Encoded | None) -> bool:
        """Whether its receivers take a message; `source` None: no filter matches it."""
        if self.predicate is None or source is None:
            return self.predicate is None
        if self._test is None:
            self._test = compile_filter(self.predicate, ACCESS)
        return self._test(source)

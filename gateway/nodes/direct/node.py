"""The direct node: senders and receivers meet, nothing is stored (DESIGN 3, `direct`).

Credit is the only flow control: what the receivers grant is what the senders get, in equal shares. A message that
comes while every receiver's credit is used (a share was given twice, or a receiver left) waits here, so that what
waits is bounded by credit given. Outcomes go back unchanged; nothing is accepted before the receiver accepted it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from gateway.amqp.link.outcomes import FAILED, RELEASED, Outcome
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.filters.predicate import TRUE
from gateway.nodes.direct.backlog import Backlog, Soon
from gateway.nodes.direct.queue import UNREAD, WaitingMessage, WaitingMessages
from gateway.nodes.direct.receiver_filter import CAPABILITIES, Predicate, source_of, wanted
from gateway.nodes.direct.receivers import FilterGroupKey, ReceiverGroup, Receivers
from gateway.nodes.direct.sender_credit import SenderCredit
from gateway.nodes.link import Delivery, SendContext
from gateway.nodes.reject import refuse
from gateway.routing.cookie_offload import CookieOffload
from gateway.routing.link_context import announced_capabilities
from gateway.routing.pending_cookies import PendingCookieQueue, send

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link

Crossing = Callable[[bytes], bytes]
"""Makes a message fit for the scope it enters: annotates or rewrites it; raises AmqpError to reject it."""
CrossingMaker = Callable[["Link", "Link"], Crossing | None]
"""Decides at first use how messages go from one link to another; None: unchanged."""
_CROSSINGS: Final = 4096
"""Requesters whose crossings a receiver remembers."""


class SenderEndpoint:
    """A sender at the meeting point: `link` is the incoming link."""

    __slots__ = ("_meeting", "left", "level", "link")

    def __init__(self, meeting: DirectNode, link: Link) -> None:
        self._meeting = meeting
        self.link = link
        self.left = self.level = 0
        """Messages that it may send until its credit is looked at, and where `Shares` has filed it."""

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Straight to the one receiver where that is all there is to do; else the meeting point decides."""
        meeting, link = self._meeting, self.link
        outlet = meeting.only
        if outlet is None or settled or (target := outlet.link).window <= 0 or target.engine.blocked:
            meeting.transfer(link, delivery, data, settled)
        elif target.context is link.context:
            target.send(data, (link, delivery))
        else:
            meeting.forward(outlet, link, delivery, data, False)
        self.left -= 1
        if self.left < 0:
            meeting.used(self)

    @property
    def attended(self) -> bool:
        """Whether somebody receives what is sent here."""
        return self._meeting.attended

    def give_back(self) -> None:
        """The link is about to end: what waits here goes back, while its sender can hear that."""
        self._meeting.give_back(self.link)

    def on_detach(self, error: AmqpError | None) -> None:
        self._meeting.leave_inlet(self)


class ReceiverEndpoint:
    """A receiver at the meeting point, with the crossings from each sender's scope to its own."""

    __slots__ = (
        "__weakref__", "_crossings", "_meeting", "counted", "group", "kind", "last", "last_context", "last_requester",
        "link", "predicate", "serial", "turn",
    )  # fmt: skip

    group: ReceiverGroup
    kind: FilterGroupKey

    def __init__(self, meeting: DirectNode, link: Link, predicate: Predicate = TRUE) -> None:
        """`predicate`: which messages it takes."""
        self.predicate = None if predicate == TRUE else predicate
        self._meeting = meeting
        self.link = link
        self.counted = self.turn = self.serial = 0
        """Its part of `Receivers.supply`, when it had its last turn, and when it came."""
        self._crossings: dict[Any, Crossing | None] = {}
        self.last_context: Any = None
        self.last_requester: Any = None
        self.last: Crossing | None = None
        """What `crossing` said for an origin with `last_way` and `last_requester`."""

    def crossing(self, origin: Link) -> Crossing | None:
        """How messages of `origin` must be changed for this receiver; decided once per sender."""
        context, requester = key = origin.context, origin.requester
        try:
            made = self._crossings[key]
        except KeyError:
            if len(self._crossings) >= _CROSSINGS:
                self._crossings.clear()
            made = self._crossings[key] = self._meeting.make_crossing(origin, self.link)
            if context.pair is not None:
                self._meeting.crossed(context, self)
        self.last_context, self.last_requester, self.last = context, requester, made
        return made

    def forget(self, origin: Link) -> None:
        """A sender whose crossing is its own, for what `$me` means, has left."""
        self._crossings.pop((origin.context, origin.requester), None)
        self.last_context = None

    def policy_changed(self, verdict: Any) -> None:
        """A reload may have changed keys or rules: decide anew at the next message."""
        self._crossings.clear()
        self.last_context = None

    def on_credit(self) -> None:
        self._meeting.credited(self)

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        link, delivery = context
        link.settle(delivery, outcome)

    def on_detach(self, error: AmqpError | None) -> None:
        self._meeting.leave_outlet(self)
        for link, delivery in self.link.take_unsettled():
            link.settle(delivery, FAILED)  # sent, and its outcome will never come


class DirectNode:
    """A direct node; `unused` is called when the last link has left."""

    named_here = False
    """The address is ours, not the peer's: it is what an attach is answered with."""

    def __init__(
        self,
        address: str,
        make_crossing: CrossingMaker,
        *,
        unused: Callable[[DirectNode], None],
        node_properties: dict[Any, Any] | None = None,
        soon: Soon | None = None,
    ) -> None:
        """`soon`: for what would hold the loop too long at once; None: the node has few links."""
        self.address: Final = address
        self.make_crossing: Final = make_crossing
        self._unused: Final = unused
        self._node_properties: Final = node_properties
        self.receivers: Final = Receivers()
        self.shares: Final = SenderCredit(self._free, soon)
        self.waiting: Final = WaitingMessages()
        self._backlog: Final = Backlog(self.waiting, self.takes, self.serve, soon)
        self.only: ReceiverEndpoint | None = None
        """The receiver that gets everything: there is no other, and nothing waits."""
        self._holding: Final = PendingCookieQueue(self)
        self._crossed: dict[Any, WeakSet[ReceiverEndpoint]] = {}
        """The receivers that have a crossing for one sender alone, by that sender's way."""
        self._closing = False

    @property
    def inlets(self) -> Sequence[SenderEndpoint]:
        """The senders."""
        return list(self.shares.all)

    @property
    def outlets(self) -> Sequence[ReceiverEndpoint]:
        """The receivers."""
        return list(self.receivers.all)

    # -- links

    @property
    def attended(self) -> bool:
        """Whether there is a receiver."""
        return bool(self.outlets)

    def attach(self, link: Link) -> None:
        """Take a link of either direction."""
        try:
            wish = None if link.incoming else wanted(link)
        except AmqpError:
            self._left()  # perhaps made for this link alone
            raise
        end = SenderEndpoint(self, link) if wish is None else ReceiverEndpoint(self, link, wish.predicate)
        self.join(end)
        link.accept(
            end,
            address=self.address if self.named_here else None,
            capabilities=announced_capabilities(link, link.context.announces) if wish is None else CAPABILITIES,
            filter=None if wish is None else wish.in_force,
            max_message_size=link.engine.config.max_message_size,
            node_properties=self._node_properties,
        )
        self.share_credit()

    def join(self, end: SenderEndpoint | ReceiverEndpoint) -> SenderEndpoint | ReceiverEndpoint:
        """Count a sender or receiver in, whoever answers its attach."""
        if isinstance(end, SenderEndpoint):
            self.shares.join(end)
        else:
            self._join_outlet(end)
        return end

    def _join_outlet(self, outlet: ReceiverEndpoint) -> None:
        self._not_only()
        group = self.receivers.join(outlet)
        if group is not None and self.waiting:
            self._ask(group)
        self._choose()

    def _not_only(self) -> None:
        """Count from here on what is sent to the one receiver."""
        if (sole := self.only) is not None:
            self.only = None
            self.receivers.count(sole)

    def _ask(self, group: ReceiverGroup) -> None:
        """Which of the messages that wait already are for a new group, too."""
        self._backlog.ask(group)

    def takes(self, group: ReceiverGroup, message: WaitingMessage) -> bool:
        """Whether a message that waits already is for a new group, too."""
        if message.source is UNREAD:
            message.source = source_of(message.data)
        return message is not self._holding.message and group.takes(message.source)

    def crossed(self, context: Any, outlet: ReceiverEndpoint) -> None:
        """A receiver has made a crossing that is for one sender alone."""
        self._crossed.setdefault(context, WeakSet()).add(outlet)

    def _choose(self) -> None:
        receivers = self.receivers
        simple = len(receivers.all) == 1 and not self.waiting and not receivers.filtered
        self.only = next(iter(receivers.all)) if simple else None

    def leave_inlet(self, inlet: SenderEndpoint) -> None:
        """A sender has left; what it sent settled is delivered all the same, for nobody could send that again."""
        self.shares.leave(inlet)
        for outlet in self._crossed.pop(inlet.link.context, ()):
            outlet.forget(inlet.link)
        self.give_back(inlet.link)  # heard where a routed link is inside another
        for message in self.waiting.left_by(inlet.link):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, True)
        self.settle_down()
        self._left()

    def give_back(self, link: Link) -> None:
        """Release what came on a link and waits."""
        for message in self.waiting.unsettled_of(link):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, False)

    def leave_outlet(self, outlet: ReceiverEndpoint) -> None:
        """A receiver has left; what only it would have taken goes back."""
        for message in self.receivers.leave(outlet):
            self.waiting.take(message)
            self.undeliverable(message.link, message.delivery, message.settled)
        self.settle_down()
        self._left()

    def _left(self) -> None:
        if not self.shares.all and not self.receivers.all and not self._closing:
            self._closing = True
            self._unused(self)

    def close(self, error: AmqpError | None = None) -> None:
        """Detach everyone: the node is gone. Receivers first, so that senders hear what became of their messages."""
        reason = error or AmqpError(RESOURCE_DELETED, "the node at this address was removed")
        self._closing = True
        for link in [end.link for end in self.outlets] + [end.link for end in self.inlets]:
            link.detach(reason)

    # -- messages

    def transfer(self, link: Link, delivery: Delivery, data: bytes, settled: bool) -> None:
        """A message came from `link`: pass it on, or let it wait for credit."""
        receivers, source = self.receivers, UNREAD
        groups: Any = receivers.groups.values()
        if receivers.filtered:
            groups = receivers.takers(source := source_of(data))
        if not groups:
            (self.unwanted if receivers.all else self.undeliverable)(link, delivery, settled)
        elif (outlet := self._ready(groups)) is not None:
            receivers.spend(outlet)
            self.forward(outlet, link, delivery, data, settled)
        else:
            self.wait(WaitingMessage(link, delivery, data, settled, source), groups)

    def _ready(self, groups: Iterable[ReceiverGroup]) -> ReceiverEndpoint | None:
        """The receiver that a message goes to now; None: it has to wait."""
        if self._holding.message is not None:
            return None
        outlet = self.receivers.pick(groups)
        return outlet if outlet is not None and outlet.group.queue.first is None else None

    def wait(self, message: WaitingMessage, groups: Iterable[ReceiverGroup], *, first: bool = False) -> None:
        """Let a message wait for whichever of `groups` has credit first."""
        self._not_only()
        self.waiting.add(message, [group.queue for group in groups], first=first)
        self._holding.stir(groups)

    def unwanted(self, link: Link, delivery: Delivery, settled: bool) -> None:
        """No receiver's filter matches: as if none were here."""
        self.undeliverable(link, delivery, settled)
        self.share_credit()

    def forward(self, outlet: ReceiverEndpoint, link: Link, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Send to one receiver; the sender's delivery waits for that receiver's outcome."""
        target = outlet.link
        if (context := link.context) is not target.context:
            try:
                same = outlet.last_context is context and outlet.last_requester is link.requester
                crossing = outlet.last if same else outlet.crossing(link)
                if crossing is not None:
                    data = crossing(data)
            except AmqpError as error:
                refuse(link, delivery, error, settled)
                self.share_credit()
                return
            except CookieOffload as wait:
                self.hold(wait, outlet, WaitingMessage(link, delivery, data, settled))
                return
        if settled:
            send(target, link, delivery, data, settled)
        else:
            target.send(data, (link, delivery))

    def hold(self, wait: CookieOffload, outlet: ReceiverEndpoint, message: WaitingMessage) -> None:
        """The cookie of this message has to be kept first: it waits, and all behind it, until that is known."""
        self._not_only()
        self._holding.hold(wait, outlet, message)

    def undeliverable(self, link: Link, delivery: Delivery, settled: bool) -> None:
        """No receiver is there, or none that takes the message."""
        if settled:
            link.drop(delivery)
        else:
            link.settle(delivery, RELEASED)

    # -- credit

    def credited(self, outlet: ReceiverEndpoint) -> None:
        """A receiver granted credit, or asked for a drain: what waits goes first, the rest to the senders."""
        if self.receivers.count(outlet):
            self.serve(outlet.group)
        self.settle_down()
        if outlet.link.draining:
            self.drain(outlet)

    def serve(self, group: ReceiverGroup) -> None:
        """Send what waits for a group to those of it that have credit."""
        receivers, queue, holding = self.receivers, group.queue, self._holding
        while holding.message is None and (message := queue.first) is not None:
            if (outlet := receivers.next_of(group)) is None:
                return
            self.waiting.take(message)
            receivers.spend(outlet)
            self.forward(outlet, message.link, message.delivery, message.data, message.settled)
        holding.stir((group,))

    def settle_down(self) -> None:
        """Something has changed: who gets messages straight away, and what the senders may send."""
        self._choose()
        self.share_credit()

    def drain(self, outlet: ReceiverEndpoint) -> None:
        """Nothing is stored here, so nothing more can come now (row CORE-13)."""
        outlet.link.drained()
        self.receivers.count(outlet)

    def _free(self) -> int:
        """Messages that the receivers would take now, beyond those that wait."""
        return self.supply() - len(self.waiting)

    def supply(self) -> int:
        """Messages that the receivers would take now."""
        if (sole := self.only) is not None:
            return sole.link.credit
        return self.receivers.supply

    def share_credit(self) -> None:
        """Grant the senders, in equal shares, what the receivers take."""
        self.shares.share()

    def used(self, inlet: SenderEndpoint) -> None:
        """A sender has used a good part of its credit."""
        if inlet in self.shares.all:
            self.shares.used(inlet)
            self.share_credit()

"""The direct node: senders and receivers meet, nothing is stored (DESIGN 3, `direct`).

Credit is the only flow control: what the receivers grant is what the senders get, in equal shares. A message that
comes while every receiver's credit is used (a share was given twice, or a receiver left) waits here, so that what
waits is bounded by credit given. Outcomes go back unchanged; nothing is accepted before the receiver accepted it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.outcomes import FAILED, RELEASED, SETTLED, Outcome
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.nodes.announcing import announcing
from gateway.nodes.filtering import CAPABILITIES, Test, message_test, takers, wanted
from gateway.nodes.keeping import Keeping
from gateway.nodes.refusal import refuse

if TYPE_CHECKING:
    from gateway.amqp.link import Link

Crossing = Callable[[bytes], bytes]
"""Makes a message fit for the scope it enters: annotates or rewrites it; raises AmqpError to reject it."""
Item = tuple["Link", Any, bytes, bool]
CrossingMaker = Callable[["Link", "Link"], Crossing | None]
"""Decides at first use how messages go from one link to another; None: unchanged."""


_CROSSINGS: Final = 4096
"""Requesters whose crossings a receiver remembers."""


class Inlet:
    """A sender at the meeting point: `link` is the incoming link."""

    __slots__ = ("_meeting", "link")

    def __init__(self, meeting: Meeting, link: Link) -> None:
        self._meeting = meeting
        self.link = link

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        """Straight to the one receiver where that is all there is to do; else the meeting point decides."""
        outlet, link = self._meeting.only, self.link
        if outlet is not None and not settled:
            target = outlet.link
            if target.window > 0 and not target.engine.blocked:
                if target.way is link.way:
                    target.send(data, (link, delivery))
                else:
                    self._meeting.forward(outlet, link, delivery, data, False)
                return
        self._meeting.transfer(link, delivery, data, settled)

    @property
    def attended(self) -> bool:
        """Whether somebody receives what is sent here."""
        return self._meeting.attended

    def on_detach(self, error: AmqpError | None) -> None:
        self._meeting.leave_inlet(self)


class Outlet:
    """A receiver at the meeting point, with the crossings from each sender's scope to its own."""

    __slots__ = ("_crossings", "_meeting", "last", "last_requester", "last_way", "link", "test")

    def __init__(self, meeting: Meeting, link: Link, test: Test | None = None) -> None:
        """`test`: which messages it takes; None: all."""
        self.test = test
        self._meeting = meeting
        self.link = link
        self._crossings: dict[Any, Crossing | None] = {}
        self.last_way: Any = None
        self.last_requester: Any = None
        self.last: Crossing | None = None
        """What `crossing` said for an origin with `last_way` and `last_requester`."""

    def crossing(self, origin: Link) -> Crossing | None:
        """How messages of `origin` must be changed for this receiver; decided once per sender."""
        way, requester = origin.way, origin.requester
        try:
            made = self._crossings[way, requester]
        except KeyError:
            if len(self._crossings) >= _CROSSINGS:
                self._crossings.clear()
            made = self._crossings[way, requester] = self._meeting.make_crossing(origin, self.link)
        self.last_way, self.last_requester, self.last = way, requester, made
        return made

    def forget(self, origin: Link) -> None:
        """A sender whose crossing is its own, for what `$me` means, has left."""
        self._crossings.pop((origin.way, origin.requester), None)
        self.last_way = None

    def policy_changed(self, verdict: Any) -> None:
        """A reload may have changed keys or rules: decide anew at the next message."""
        self._crossings.clear()
        self.last_way = None

    def on_credit(self) -> None:
        self._meeting.credited(self)

    def on_outcome(self, context: Any, outcome: Outcome) -> None:
        context[0].settle(context[1], outcome)

    def on_detach(self, error: AmqpError | None) -> None:
        self._meeting.leave_outlet(self)
        for link, delivery in self.link.take_unsettled():
            link.settle(delivery, FAILED)  # sent, and its outcome will never come


class Meeting:
    """A direct node; `unused` is called when the last link has left."""

    named_here = False
    """The address is ours, not the peer's: it is what an attach is answered with."""

    def __init__(
        self,
        address: str,
        make_crossing: CrossingMaker,
        *,
        unused: Callable[[Meeting], None],
        node_properties: dict[Any, Any] | None = None,
    ) -> None:
        self.address: Final = address
        self.make_crossing: Final = make_crossing
        self._unused: Final = unused
        self._node_properties: Final = node_properties
        self.inlets: list[Inlet] = []
        self.outlets: list[Outlet] = []
        self._waiting: deque[tuple[Link, Any, bytes, bool]] = deque()
        self.only: Outlet | None = None
        """The receiver that gets everything: there is no other, and nothing waits."""
        self._turn = 0
        self._held: Item | None = None
        """The first that waits, while it waits for shared state and not for credit."""
        self.filtered = False
        """Some receiver takes only what its filter matches."""
        self._closing = False
        self._shared = 0

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
        end = Inlet(self, link) if wish is None else Outlet(self, link, message_test(wish.predicate))
        self.join(end)
        link.accept(
            end,
            address=self.address if self.named_here else None,
            capabilities=announcing(link, link.way.announces) if wish is None else CAPABILITIES,
            filter=None if wish is None else wish.in_force,
            max_message_size=link.engine.config.max_message_size,
            node_properties=self._node_properties,
        )
        self.share_credit()

    def join(self, end: Inlet | Outlet) -> Inlet | Outlet:
        """Count a sender or receiver in, whoever answers its attach."""
        if isinstance(end, Inlet):
            self.inlets.append(end)
        else:
            self.outlets.append(end)
            self._count()
        return end

    def _count(self) -> None:
        self.filtered = any(outlet.test is not None for outlet in self.outlets)
        self._choose()

    def _choose(self) -> None:
        simple = len(self.outlets) == 1 and not self._waiting and not self.filtered
        self.only = self.outlets[0] if simple else None

    def leave_inlet(self, inlet: Inlet) -> None:
        self.inlets.remove(inlet)
        if inlet.link.way.pair is not None:
            for outlet in self.outlets:
                outlet.forget(inlet.link)
        left = [item for item in self._waiting if item[0] is inlet.link]
        self._waiting = deque(item for item in self._waiting if item[0] is not inlet.link)
        for item in left:  # a routed link leaves its deliveries to the link around it, which is still there
            self._undeliverable(*item)
        self.share_credit()
        self._left()

    def leave_outlet(self, outlet: Outlet) -> None:
        self.outlets.remove(outlet)
        if not self.outlets:
            while self._waiting:
                self._undeliverable(*self._waiting.popleft())
        self._count()
        if self._waiting and self.filtered:
            self._resume()  # what only this receiver wanted goes back
        self._left()

    def _left(self) -> None:
        if not self.inlets and not self.outlets and not self._closing:
            self._closing = True
            self._unused(self)

    def close(self, error: AmqpError | None = None) -> None:
        """Detach everyone: the node is gone."""
        reason = error or AmqpError(RESOURCE_DELETED, "the node at this address is gone")
        self._closing = True
        for link in [end.link for end in self.inlets] + [end.link for end in self.outlets]:
            link.detach(reason)

    # -- messages

    def transfer(self, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
        """A message came from `link`: pass it on, or let it wait for credit."""
        if self.filtered and self._held is None:
            if not self._sift((link, delivery, data, settled)):
                self._waiting.append((link, delivery, data, settled))
        elif not self._waiting and (outlet := self.pick()) is not None:
            self.forward(outlet, link, delivery, data, settled)
        elif self.outlets:
            self._waiting.append((link, delivery, data, settled))
            self.only = None
        else:
            self._undeliverable(link, delivery, data, settled)

    def _sift(self, item: Item) -> bool:
        """Send a message to a receiver whose filter it matches; False: all of these lack credit."""
        link, delivery, data, settled = item
        outlets = takers(self.outlets, link, delivery, data)
        if not outlets:
            self.unwanted(link, delivery, settled)
        elif (outlet := self._next(outlets)) is not None:
            self.forward(outlet, link, delivery, data, settled)
        else:
            return False
        return True

    def unwanted(self, link: Link, delivery: Any, settled: bool) -> None:
        """No receiver's filter matches: as if none were here."""
        self._undeliverable(link, delivery, b"", settled)
        self.share_credit()

    def pick(self) -> Outlet | None:
        """The receiver whose turn it is among those with credit (balanced)."""
        return self._next(self.outlets)

    def _next(self, outlets: list[Outlet]) -> Outlet | None:
        if len(outlets) == 1:
            link = outlets[0].link
            return outlets[0] if link.window > 0 and not link.engine.blocked else None
        for step in range(count := len(outlets)):
            outlet = outlets[(self._turn + step) % count]
            if outlet.link.credit > 0:
                self._turn = (self._turn + step + 1) % count
                return outlet
        return None

    def forward(self, outlet: Outlet, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
        """Send to one receiver; the sender's delivery waits for that receiver's outcome."""
        target = outlet.link
        if (way := link.way) is not target.way:
            try:
                same = outlet.last_way is way and outlet.last_requester is link.requester
                crossing = outlet.last if same else outlet.crossing(link)
                if crossing is not None:
                    data = crossing(data)
            except AmqpError as error:
                refuse(link, delivery, error, settled)
                self.share_credit()
                return
            except Keeping as wait:
                self.hold(wait, outlet, (link, delivery, data, settled))
                return
        if settled:
            link.settle(delivery, SETTLED)
            target.send(data, None, True)
        else:
            target.send(data, (link, delivery))

    def hold(self, wait: Keeping, outlet: Outlet, item: Item) -> None:
        """The cookie of this message has to be kept first: it waits, and all behind it, until that is known."""
        if wait.kept is not None:  # known already, and not kept
            self._undeliverable(*item)
            self.share_credit()
            return
        self._waiting.appendleft(item)
        self.only = None
        self._held = item
        wait.when_known(lambda kept: self._held_no_more(item, outlet, wait.data if kept else None))

    def _held_no_more(self, item: Item, outlet: Outlet, data: bytes | None) -> None:
        """Send what may go; where the receiver has no credit any more it stays and crosses again."""
        if self._held is item:
            self._held = None
        waiting = self._waiting
        if waiting and waiting[0] is item:
            if data is None:
                self._undeliverable(*waiting.popleft())
            elif outlet in self.outlets and outlet.link.credit > 0:
                waiting.popleft()
                send(outlet.link, item, data)
        self._resume()

    def _undeliverable(self, link: Link, delivery: Any, data: bytes, settled: bool) -> None:
        if settled:
            link.drop(delivery)
        else:
            link.settle(delivery, RELEASED)

    # -- credit

    def credited(self, outlet: Outlet) -> None:
        """A receiver granted credit, or asked for a drain: what waits goes first, the rest to the senders."""
        self._resume()
        if outlet.link.draining:
            self.drain(outlet)

    def _resume(self) -> None:
        waiting = self._waiting
        if self.filtered:
            self._resume_filtered()
        while waiting and not self.filtered and self._held is None and (chosen := self.pick()) is not None:
            self.forward(chosen, *waiting.popleft())
        self._choose()
        self.share_credit()

    def _resume_filtered(self) -> None:
        """What waits for a receiver without credit does not hold up what others take; its order stays."""
        waiting, kept = self._waiting, list[Item]()
        for _ in range(len(waiting)):
            if self._held is not None:
                break
            if not self._sift(item := waiting.popleft()):
                kept.append(item)
        held = waiting.popleft() if kept and self._held is not None else None
        waiting.extendleft(reversed(kept))
        if held is not None:
            waiting.appendleft(held)

    def drain(self, outlet: Outlet) -> None:
        """Nothing is stored here, so nothing more can come now."""
        outlet.link.drained()

    def supply(self) -> int:
        """Messages that the receivers would take now."""
        return sum(outlet.link.window for outlet in self.outlets if not outlet.link.engine.blocked)

    def share_credit(self) -> None:
        """Grant the senders, in equal shares, what the receivers take.

        A link of our own may send at once, and what nobody wants is to be granted anew: that is done here in turn.
        """
        self._shared += 1
        if self._shared > 1:
            return
        try:
            done = 0
            while done != self._shared:
                done = self._shared
                self._share()
        finally:
            self._shared = 0

    def _share(self) -> None:
        inlets = self.inlets
        if not inlets or (supply := self.supply() - len(self._waiting)) <= 0:
            return
        share = supply // len(inlets) or 1
        for inlet in inlets:
            if (missing := share - inlet.link.granted) > 0:
                inlet.link.grant(missing)


def send(target: Link, item: Item, data: bytes) -> None:
    """Send what is fit to go; the sender's delivery waits for the outcome."""
    link, delivery, _, settled = item
    if settled:
        link.settle(delivery, SETTLED)
        target.send(data, None, True)
    else:
        target.send(data, (link, delivery))

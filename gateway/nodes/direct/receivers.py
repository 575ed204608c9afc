"""The receivers of a direct node: which messages each takes, whose turn it is, and how much credit they have in all.

Receivers with equal filters form a group, and those without one are a group, too. A message is judged once for each
group. Nothing here walks over all receivers: each event touches the receiver that it is about, and its group.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.filters.evaluate.access import Encoded
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index import PredicateIndex
from gateway.nodes.direct.queue import Queue, WaitingMessage
from gateway.nodes.direct.receiver_filter import ACCESS, Predicate, Test
from gateway.routing.link_context import RESPONSE_ADDRESS_SUPPORTED, LinkContext

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.nodes.direct.node import ReceiverEndpoint


class FilterGroupKey(NamedTuple):
    """What a sender's attach has to know of the receivers that are there (RA-2.2-4)."""

    context: LinkContext
    supports: bool
    """It said that it follows response annotations."""


def kind_of(link: Link) -> FilterGroupKey:
    """The kind of a receiver; there are few."""
    return FilterGroupKey(link.context, RESPONSE_ADDRESS_SUPPORTED in link.target.capabilities)


class ReceiverGroup:
    """The receivers with one filter, and what waits for any of them."""

    __slots__ = ("_test", "behind", "members", "predicate", "queue", "ready")

    def __init__(self, predicate: Predicate | None) -> None:
        """`predicate`: the filter; None: they take all messages."""
        self.predicate: Final = predicate
        self._test: Test | None = None
        self.members: Final[dict[ReceiverEndpoint, None]] = {}
        self.ready: Final[OrderedDict[ReceiverEndpoint, None]] = OrderedDict()
        """Those that had credit when they were last looked at, in the order of their turns."""
        self.queue: Final = Queue()
        self.behind = False
        """It has not been asked about all that waited when it came, and gets nothing before that."""

    def takes(self, source: Encoded | None) -> bool:
        """Whether its receivers take a message; `source` None: no filter matches it."""
        if self.predicate is None or source is None:
            return self.predicate is None
        if self._test is None:
            self._test = compile_filter(self.predicate, ACCESS)
        return self._test(source)


class Receivers:
    """All receivers of one node."""

    __slots__ = ("_index", "_serial", "_turn", "all", "filtered", "groups", "kinds", "supply")

    def __init__(self) -> None:
        self.all: dict[ReceiverEndpoint, None] = {}
        self.groups: Final[dict[Predicate | None, ReceiverGroup]] = {}
        self.kinds: Final[dict[FilterGroupKey, int]] = {}
        """How many there are of each."""
        self.filtered = False
        """Some receiver takes only what its filter matches."""
        self.supply = 0
        """The credit of all of them, each as it was when it was last looked at."""
        self._serial = self._turn = 0
        self._index: PredicateIndex[ReceiverGroup, Encoded] | None = None

    def join(self, outlet: ReceiverEndpoint) -> ReceiverGroup | None:
        """Add a receiver; returns its group if it is the first of it."""
        self.all[outlet] = None
        outlet.kind = kind = kind_of(outlet.link)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self._serial += 1
        outlet.serial = self._serial
        group = self.groups.get(outlet.predicate)
        new = group is None
        if group is None:
            group = self.groups[outlet.predicate] = ReceiverGroup(outlet.predicate)
            self._judges(group)
        group.members[outlet] = None
        outlet.group = group
        return group if new else None

    def leave(self, outlet: ReceiverEndpoint) -> list[WaitingMessage]:
        """Remove a receiver; returns what nobody takes any more."""
        del self.all[outlet]
        self.kinds[outlet.kind] -= 1
        if not self.kinds[outlet.kind]:
            del self.kinds[outlet.kind]
        group = outlet.group
        del group.members[outlet]
        group.ready.pop(outlet, None)
        self.supply -= outlet.counted
        if len(self.all) == 1:  # the places of many that have left are not to be looked through for the last
            self.all = self.all.copy()
        if group.members:
            return []
        del self.groups[group.predicate]
        self._judges_no_more(group)
        left = group.queue.clear()
        for message in left:
            message.takers -= 1
        return [message for message in left if not message.takers]

    def _judges(self, group: ReceiverGroup) -> None:
        """A group more: one filter is asked by itself, several are looked up."""
        if group.predicate is None:
            return
        if self._index is not None:
            self._index.add(group, group.predicate)
        elif self.filtered:
            self._index = PredicateIndex(ACCESS)
            for each in self.groups.values():
                if each.predicate is not None:
                    self._index.add(each, each.predicate)
        self.filtered = True

    def _judges_no_more(self, group: ReceiverGroup) -> None:
        if self._index is not None and group.predicate is not None:
            self._index.remove(group)
            if not len(self._index):
                self._index = None
        self.filtered = len(self.groups) > (None in self.groups)

    # -- who takes what

    def takers(self, source: Encoded | None) -> list[ReceiverGroup]:
        """The groups that take a message; `source` None: no filter matches it."""
        if self._index is None or source is None:
            return [group for group in self.groups.values() if group.takes(source)]
        found = self._index.matching(source)
        if (all_ := self.groups.get(None)) is not None:
            found.append(all_)
        return found

    # -- credit

    def count(self, outlet: ReceiverEndpoint) -> bool:
        """Look at a receiver's credit; whether it has some."""
        credit = outlet.link.credit
        self.supply += credit - outlet.counted
        outlet.counted = credit
        ready = outlet.group.ready
        if credit <= 0:
            ready.pop(outlet, None)
        elif outlet not in ready:
            self._last(outlet)
        return credit > 0

    def _last(self, outlet: ReceiverEndpoint) -> None:
        self._turn += 1
        outlet.turn = self._turn
        outlet.group.ready[outlet] = None

    def spend(self, outlet: ReceiverEndpoint) -> None:
        """A message is about to be sent to it: others have their turn first."""
        outlet.counted -= 1
        self.supply -= 1
        self._turn += 1
        outlet.turn = self._turn
        outlet.group.ready.move_to_end(outlet)

    def next_of(self, group: ReceiverGroup) -> ReceiverEndpoint | None:
        """The receiver of a group whose turn it is among those with credit."""
        ready = group.ready
        while ready and not group.behind:
            outlet = next(iter(ready))
            if outlet.link.credit > 0:
                return outlet
            self.count(outlet)
        return None

    def pick(self, groups: Iterable[ReceiverGroup]) -> ReceiverEndpoint | None:
        """The same over several groups (balanced)."""
        chosen: Any = None
        for group in groups:
            outlet = self.next_of(group)
            if outlet is not None and (chosen is None or outlet.turn < chosen.turn):
                chosen = outlet
        return chosen  # type: ignore[no-any-return]

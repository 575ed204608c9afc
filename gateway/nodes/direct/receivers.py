"""The receivers of a direct node: the messages that each takes, their turns, and their total credit.

Receivers with equal filters form a group, as do those without a filter. A filter is evaluated once for each group and
message. Nothing here iterates over all receivers: an event concerns one receiver and its group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.filters.evaluate.access import Encoded
from gateway.filters.index import PredicateIndex
from gateway.nodes.direct.endpoints import ReceiverEndpoint, ReceiverGroup
from gateway.nodes.direct.queue import WaitingMessage
from gateway.nodes.direct.receiver_filter import ACCESS, Predicate
from gateway.routing.announcements import ReceiverKind, kind_of


class Receivers:
    """All receivers of one node."""

    __slots__ = ("_index", "_serial", "_turn", "all", "filtered", "groups", "kinds", "supply")

    def __init__(self) -> None:
        self.all: dict[ReceiverEndpoint, None] = {}
        self.groups: Final[dict[Predicate | None, ReceiverGroup]] = {}
        self.kinds: Final[dict[ReceiverKind, int]] = {}
        """The number of receivers of each kind."""
        self.filtered = False
        """Whether some receiver has a filter."""
        self.supply = 0
        """The credit of all receivers, each as of its last check."""
        self._serial = self._turn = 0
        self._index: PredicateIndex[ReceiverGroup, Encoded] | None = None

    def join(self, receiver: ReceiverEndpoint) -> ReceiverGroup | None:
        """Add a receiver; returns its group if it is the first of it."""
        self.all[receiver] = None
        receiver.kind = kind = kind_of(receiver.link)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self._serial += 1
        receiver.serial = self._serial
        group = self.groups.get(receiver.predicate)
        new = group is None
        if group is None:
            group = self.groups[receiver.predicate] = ReceiverGroup(receiver.predicate)
            self._add_to_index(group)
        group.members[receiver] = None
        receiver.group = group
        return group if new else None

    def leave(self, receiver: ReceiverEndpoint) -> list[WaitingMessage]:
        """Remove a receiver; returns the messages that no other receiver takes."""
        del self.all[receiver]
        self.kinds[receiver.kind] -= 1
        if not self.kinds[receiver.kind]:
            del self.kinds[receiver.kind]
        group = receiver.group
        del group.members[receiver]
        group.ready.pop(receiver, None)
        self.supply -= receiver.counted
        if len(self.all) == 1:  # a copy is small again: iteration would pass the slots of all that have left
            self.all = self.all.copy()
        if group.members:
            return []
        del self.groups[group.predicate]
        self._remove_from_index(group)
        left = group.queue.clear()
        for message in left:
            message.groups_left -= 1
        return [message for message in left if not message.groups_left]

    def _add_to_index(self, group: ReceiverGroup) -> None:
        """Index the filter of a new group, if there is more than one."""
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

    def _remove_from_index(self, group: ReceiverGroup) -> None:
        if self._index is not None and group.predicate is not None:
            self._index.remove(group)
            if not len(self._index):
                self._index = None
        self.filtered = len(self.groups) > (None in self.groups)

    # -- filters

    def matching_groups(self, source: Encoded | None) -> list[ReceiverGroup]:
        """The groups that take a message; `source` None: no filter matches it."""
        if self._index is None or source is None:
            return [group for group in self.groups.values() if group.takes(source)]
        found = self._index.matching(source)
        if (all_ := self.groups.get(None)) is not None:
            found.append(all_)
        return found

    # -- credit

    def count(self, receiver: ReceiverEndpoint) -> bool:
        """Update the credit of a receiver; returns whether it has any."""
        credit = receiver.link.credit
        self.supply += credit - receiver.counted
        receiver.counted = credit
        ready = receiver.group.ready
        if credit <= 0:
            ready.pop(receiver, None)
        elif receiver not in ready:
            self._last(receiver)
        return credit > 0

    def _last(self, receiver: ReceiverEndpoint) -> None:
        self._turn += 1
        receiver.turn = self._turn
        receiver.group.ready[receiver] = None

    def spend(self, receiver: ReceiverEndpoint) -> None:
        """Count a message that is about to be sent to a receiver, and move it to the end of the turns."""
        receiver.counted -= 1
        self.supply -= 1
        self._turn += 1
        receiver.turn = self._turn
        receiver.group.ready.move_to_end(receiver)

    def next_of(self, group: ReceiverGroup) -> ReceiverEndpoint | None:
        """The next receiver of a group, in turn, that has credit."""
        ready = group.ready
        while ready and not group.behind:
            receiver = next(iter(ready))
            if receiver.link.credit > 0:
                return receiver
            self.count(receiver)
        return None

    def pick(self, groups: Iterable[ReceiverGroup]) -> ReceiverEndpoint | None:
        """The next receiver of several groups, in turn, that has credit."""
        chosen: ReceiverEndpoint | None = None
        for group in groups:
            receiver = self.next_of(group)
            if receiver is not None and (chosen is None or receiver.turn < chosen.turn):
                chosen = receiver
        return chosen

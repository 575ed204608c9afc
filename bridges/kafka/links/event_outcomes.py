"""The outcomes of the events that a link has sent: progress, redelivery, dead letters, strict order (KM-12).

A log cannot requeue an event: after `released` and `modified` it is sent again on this link, up to a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol
from weakref import ref

import structlog

from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.links.checkpointer import DurableTerminus
from bridges.kafka.links.delivery_policy import DeliveryPolicy
from bridges.kafka.links.event_edits import modified
from bridges.kafka.links.log_link import LogLink
from bridges.kafka.links.redelivery_queue import OpenRetirements, RedeliveryQueue
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.transactions.offsets import done_by
from gateway.amqp.link.outcomes import ACCEPTED, Modified, Outcome, Rejected, Released
from gateway.amqp.link.transactions import Enlisting, Retirement
from gateway.errors import ILLEGAL_STATE, RESOURCE_LIMIT_EXCEEDED, AmqpError

log = structlog.get_logger(logger_name="kafka")


class EventSender(Protocol):
    """What sends the events (`LogReceiver`)."""

    def has_partition(self, partition: int) -> bool:
        """Whether the link reads this partition now: in a group, another link may have it meanwhile."""

    def resume(self, partition: int) -> None:
        """Newer events of a partition need no longer wait."""

    def deliver_later(self) -> None:
        """There are events to send again."""

    def window_changed(self) -> None:
        """The link holds fewer bytes."""


class EventOutcomes:
    """The events of one link that were sent, as far as their outcomes matter for what is sent next."""

    def __init__(
        self,
        sender: EventSender,
        link: LogLink,
        topic: str,
        policy: DeliveryPolicy,
        terminus: DurableTerminus | None,
        counters: ClusterCounters,
    ) -> None:
        """`terminus`: None if the positions are not stored. An outcome may come when the `sender` is gone."""
        self._sender: Final = ref(sender)
        self._link: Final = link
        self._topic: Final = topic
        self._policy: Final = policy
        self._terminus: Final = terminus
        self._counters: Final = counters
        self.redeliveries: Final = RedeliveryQueue(link.keep)
        self.retirements: Final = OpenRetirements(link.keep)
        self.unresolved: Final[dict[int, set[int]]] = {}
        """Offsets, by partition, that newer events wait for (`strict_order`)."""
        self.tracked: Final = terminus is not None or policy.strict_order
        """Whether accepted events matter."""
        self._given_up = 0
        self._copying: Final[dict[Enlisting, set[tuple[int, int]]]] = {}
        """Partition and offset of events whose dead letters are in open transactions."""
        self._copied: Final[set[tuple[int, int]]] = set()
        """Those whose transactions are committed, until they get their outcomes."""

    def settled(self, event: EncodedEvent, outcome: Outcome) -> None:
        """The peer has settled an event, finally or to get it again."""
        if outcome is ACCEPTED:
            if self.tracked:
                self.done((event,))
        elif isinstance(outcome, Released):
            self._redeliver(event, None)
        elif isinstance(outcome, Modified) and not outcome.undeliverable:
            self._redeliver(event, outcome)
        elif isinstance(outcome, Modified | Rejected):
            self._give_up(event, outcome.error if isinstance(outcome, Rejected) else None)
        else:
            self.done((event,))

    def retired(self, transaction: Enlisting, retirement: Retirement) -> None:
        """The peer gives an event an outcome in a transaction: a stored position is committed with it (KM-14)."""
        if self._terminus is not None:
            self._terminus.checkpointer.retire(transaction, self._terminus, self._topic, retirement)
            self._post_dead_letter(transaction, self._terminus, retirement)
        if retirement.settled and isinstance(settled := retirement.context, EncodedEvent):
            self.retirements.add(transaction, settled)
        if (event := done_by(retirement)) is not None:  # newer ones may be for the same transaction, before a rollback
            self._resolved(event)

    def _post_dead_letter(self, transaction: Enlisting, terminus: DurableTerminus, retirement: Retirement) -> None:
        """The position passes an event that is refused with the transaction: so its copy is a part of that."""
        event, outcome, letters = retirement.context, retirement.outcome, self._policy.dead_letters
        if letters is None or not isinstance(event, EncodedEvent):
            return
        refused = done_by(retirement) is not None and outcome is not ACCEPTED
        if (event.partition, event.offset) in self._copying.get(transaction, ()):
            if not refused:
                raise AmqpError(ILLEGAL_STATE, "an event that was rejected in a transaction got another outcome in it")
        elif refused:
            error = outcome.error if isinstance(outcome, Rejected) else None
            letters.post(terminus.checkpointer.enlist(transaction), transaction, event, error)
            self._copies(transaction, event)

    def _copies(self, transaction: Enlisting, event: EncodedEvent) -> None:
        def ended(committed: bool) -> None:
            places = self._copying.pop(transaction)
            self._copied.update(places if committed else ())

        if transaction not in self._copying:
            self._copying[transaction] = set()
            transaction.at_end(ended)
        self._copying[transaction].add((event.partition, event.offset))

    def done(self, events: Sequence[EncodedEvent]) -> None:
        """Events are settled finally: they will not be sent again."""
        if (terminus := self._terminus) is not None:
            terminus.progress.done_all(events)
            terminus.checkpointer.changed(terminus)
        for event in events if self.unresolved else ():
            self._resolved(event)

    def forget(self, partition: int) -> None:
        """Another link has this partition now."""
        self.unresolved.pop(partition, None)
        self.redeliveries.forget(partition)

    def _resolved(self, event: EncodedEvent) -> None:
        """Newer events no longer wait for this one."""
        if (waiting := self.unresolved.get(event[1])) is not None:
            waiting.discard(event[2])
            if not waiting:
                del self.unresolved[event[1]]
                if (sender := self._sender()) is not None:
                    sender.resume(event[1])

    def _redeliver(self, event: EncodedEvent, outcome: Modified | None) -> None:
        if (sender := self._sender()) is None or not sender.has_partition(event.partition):
            return  # its new owner sends the event again
        if outcome is not None and event.attempts >= self._policy.max_redeliveries:
            self._count_given_up(event)
            self._give_up(event, AmqpError(RESOURCE_LIMIT_EXCEEDED, "too many redeliveries"))
            return
        if self._policy.strict_order:
            self.unresolved.setdefault(event.partition, set()).add(event.offset)
        self.redeliveries.put(event if outcome is None else modified(event, outcome, self._counters))
        sender.deliver_later()

    def _count_given_up(self, event: EncodedEvent) -> None:
        self._counters.dropped += 1
        self._given_up += 1
        if self._given_up & (self._given_up - 1) == 0:  # the 1st, 2nd, 4th, 8th…
            where = {"topic": self._topic, "partition": event.partition, "offset": event.offset}
            copied = self._policy.dead_letters is not None
            log.warning("event given up after max_redeliveries", **where, copied=copied, given_up=self._given_up)

    def _give_up(self, event: EncodedEvent, error: AmqpError | None) -> None:
        """An event that the consumer refuses is done at once, or when the dead-letter topic has it."""
        place = event.partition, event.offset
        if self._policy.dead_letters is None or place in self._copied:
            self._copied.discard(place)
            self.done((event,))
            return
        self.redeliveries.add_dead_letter(event)
        self._policy.dead_letters.write(event, error, lambda: self._dead_letter_written(event), lambda: self._link.open)

    def _dead_letter_written(self, event: EncodedEvent) -> None:
        self.redeliveries.remove_dead_letter(event)
        if (sender := self._sender()) is not None:
            sender.window_changed()
        self.done((event,))

"""The receiving end of a bridge at an event log or queue behind a connector (ES 3.1, 4.4, 4.5; KM-24).

A log with durable termini stores the position. Besides, the offset of the last finished event is stored here as it
came, and requested when the link is attached again: offsets are never computed or interpreted (ES-5.1.1-2). Events that
come again all the same, for example because the log has lost its terminus, are skipped by these offsets, which sort as
text (ES-5.1.1-4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.amqp.codec.types import Symbol, ValueMap
from gateway.amqp.link.handlers import Delivery, Incoming
from gateway.amqp.link.outcomes import ACCEPTED, Outcome
from gateway.amqp.message.hop import EVENTS
from gateway.amqp.message.sections import walk
from gateway.amqp.proton.proton_data import AttachReply
from gateway.errors import DETACH_FORCED, INVALID_FIELD, RESOURCE_DELETED, RESOURCE_LIMIT_EXCEEDED, AmqpError, quoted
from gateway.filters.parse.filter_set import RULES, read
from gateway.filters.position.event_stream import EARLIEST
from gateway.forwarding.checkpoints import WHOLE, Checkpoints
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.forwarding.local_source import BridgeReading, SourceOwner, filters, link_name, start
from gateway.links.reject import reject_delivery
from gateway.nodes.direct.receiver_filter import Test, message_test
from gateway.routing.event_annotations import CAPABILITY, GROUP, PARTITION, Event, read_event

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.links.link import PolicyVerdict
    from gateway.nodes.base import Remotes, Resolver


class RemoteSource(Incoming):
    """Our receiver at the container behind a connector: of an event log, or of any other node."""

    def __init__(
        self, owner: SourceOwner, flow: InFlight, scope: Resolver, entry: BridgeReading, checkpoints: Checkpoints
    ) -> None:
        self._owner: Final = owner
        self._flow: Final = flow
        self._scope: Final = scope
        self._entry: Final = entry
        self._checkpoints: Final = checkpoints
        self._name: Final = link_name(scope.name, entry.name)
        self._connector: Remotes | None = None
        self._link: Link | None = None
        self._bound: str | None = None
        self._test: Test | None = None
        self._requested = False
        self._behind: dict[str, str] = {}
        """By partition: the offset up to which events were finished when the link began, until a later one comes."""
        self.gone = False

    def start(self) -> None:
        """Attach as soon as the connector is connected; `source_attached` or `source_ended` follows."""
        name = self._entry.source.connector
        self._connector = self._scope.connectors.get(name or "")
        if self._connector is None:
            self.end(AmqpError(DETACH_FORCED, f"connector {name} is not in the policy"))
            return
        self._connector.watch(self)
        if self._connector.engine is not None:
            self.opened(self._connector.engine)

    def opened(self, engine: Engine) -> None:
        """The connector is connected."""
        entry, durable = self._entry, self._entry.durable
        if durable and any(link.name == self._name for link in engine.links):
            self.end(AmqpError(DETACH_FORCED, "the container has not yet detached the previous link"))
            return
        self._checkpoints.begin()
        streams = CAPABILITY in engine.offered
        self._behind = self._checkpoints.all() if streams else {}
        link = engine.attach(self._name, incoming=True, known=durable)
        granted = AttachReply(
            entry.source.address,
            properties=self._properties() if streams else None,
            filter=filters(entry, self._position() if streams else None),
            max_message_size=engine.config.max_message_size,
            durable=durable,
            stays=True,
        )
        self._requested = True
        link.understands = EVENTS
        link.request(self, granted)

    def closed(self) -> None:
        """The connection was lost: end an attach that was not answered, which has no other notification."""
        if self._requested:
            self.end(AmqpError(DETACH_FORCED, "the connection was lost"))

    def _properties(self) -> ValueMap:
        """Link properties: in a group no partition unless the policy names it: one is assigned (ES-4.5.1-6)."""
        entry, found = self._entry, ValueMap()
        if entry.group is not None:
            found[Symbol(GROUP)] = entry.group
        if entry.partition is not None:
            found[Symbol(PARTITION)] = Symbol(entry.partition)
        return found

    def _position(self) -> str | None:
        """The offset to start after: a sentinel, or an offset that the log sent."""
        entry, checkpoints = self._entry, self._checkpoints
        if not checkpoints:
            return start(entry)
        if entry.group is not None:
            return None  # the group has its own position there
        mark = checkpoints.of(WHOLE if entry.partition is None else entry.partition)
        return mark or (EARLIEST if entry.partition is None else start(entry))

    # -- our link at the container

    def on_attached(self, link: Link) -> None:
        """The container has attached the link."""
        if self.gone:
            link.leave()
            return
        self._link = link
        try:
            self._test = self._remaining_filter(link)
        except AmqpError as error:
            self.end(error)
            return
        bound = link.properties.get(PARTITION)
        self._bound = bound if isinstance(bound, str) else None
        durable = bool(link.source.durable)
        self._owner.source_attached("position kept there" if durable else "position kept here")
        self._flow.source_open(self)

    def _remaining_filter(self, link: Link) -> Test | None:
        """The filter of the policy, if the container does not apply it."""
        own = filters(self._entry, None)
        left = {name: value for name, value in own.items() if link.source.filter.get(name) != value}
        return message_test(read(left, self._scope.context.filter_rules or RULES).predicate)

    def on_refused(self, error: AmqpError) -> None:
        self.end(error)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        event = read_event(data, keep_partition=self._entry.keep_partitions)
        if self._bound is not None and event.partition not in (None, self._bound):
            self._misplaced(delivery, event, settled)
        elif self._skips(data, event):
            self._owner.skipped()
            if self._link is not None:
                self._link.settle(delivery, ACCEPTED)
        elif self._has_room(event):
            serial = self._flow.came(self, None if settled else delivery, event)
            if event.offset is not None:
                self._checkpoints.came(serial, self._partition(event), event.offset)
        self._flow.pump()

    def _has_room(self, event: Event) -> bool:
        """Whether the event's offset can be stored; if not, the link ends before anything is lost."""
        if event.offset is None or (problem := self._checkpoints.problem(self._partition(event), event.offset)) is None:
            return True
        self.end(AmqpError(RESOURCE_LIMIT_EXCEEDED, problem))
        return False

    def _misplaced(self, delivery: Delivery, event: Event, settled: bool) -> None:
        """Reject an event of another partition than the one that this link is bound to (ES-4.4-3)."""
        assert event.partition is not None
        self._owner.misplaced()
        text = f"this link is bound to partition {quoted(self._bound or '')}, the event is of {quoted(event.partition)}"
        error = AmqpError(INVALID_FIELD, text, info={"field": "event-streams-source-partition"})
        if self._link is not None:
            reject_delivery(self._link, delivery, error, settled)

    def _skips(self, data: bytes, event: Event) -> bool:
        if self._behind and event.offset is not None and self._was_finished(self._partition(event), event.offset):
            return True
        return self._test is not None and not self._matches(data)

    def _was_finished(self, partition: str, offset: str) -> bool:
        """Whether the event was finished before this link began; the first one that was not ends the check."""
        mark = self._behind.get(partition)
        if mark is None:
            return False
        if offset.encode() <= mark.encode():
            return True
        del self._behind[partition]
        return False

    def _matches(self, data: bytes) -> bool:
        try:
            return self._test is None or self._test((data, walk(data)))
        except AmqpError:
            return False

    def _partition(self, event: Event) -> str:
        """The key of the event's checkpoint."""
        return event.partition or self._bound or self._entry.partition or WHOLE

    def on_drained(self) -> None:
        """Nothing: this link is never drained."""

    def on_detach(self, error: AmqpError | None) -> None:
        self._link = None
        self.end(error or AmqpError(DETACH_FORCED, "the container has ended the link"))

    # -- for `InFlight`

    @property
    def granted(self) -> int:
        """Requested events that have not come."""
        return self._link.granted if self._link is not None else 0

    def ask(self, credit: int) -> None:
        """Request `credit` more events."""
        if self._link is not None:
            self._link.grant(credit)

    def settle(self, item: InFlightEvent, outcome: Outcome) -> None:
        """Settle an event with its final outcome."""
        if item.event.offset is not None:
            self._checkpoints.done(item.serial, self._partition(item.event))
        if item.origin is not None and self._link is not None:
            self._link.settle(item.origin, outcome)

    # -- the end

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: the connector may have been replaced."""
        if self._scope.connectors.get(self._entry.source.connector or "") is not self._connector:
            self.end(AmqpError(DETACH_FORCED, "the connector has changed"))

    def end(self, error: AmqpError | None) -> None:
        """End the link once; a durable terminus stays at the container."""
        if self.gone:
            return
        self.gone = True
        if error is not None and error.condition == RESOURCE_DELETED:
            self._checkpoints.forget()
        if self._connector is not None:
            self._connector.unwatch(self)
        link, self._link = self._link, None
        if link is not None:
            if self._entry.durable:
                link.leave()
            else:
                link.detach()
        self._flow.source_gone()
        self._owner.source_ended(error)

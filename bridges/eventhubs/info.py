"""What an event hub has: its partitions and their ends, from the `$info` of its address (ES 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from bridges.eventhubs.messages import LastEvent
from gateway.amqp.codec.types import Value, ValueMap
from gateway.amqp.link.config import EngineConfig, PeerInfo
from gateway.amqp.link.handlers import Incoming, Outgoing, SendContext
from gateway.amqp.message import sections
from gateway.amqp.proton.proton_data import ABSENT
from gateway.errors import INTERNAL_ERROR, AmqpError, Fault
from gateway.links.internal_link import InternalLink, NothingUnsettled
from gateway.links.link import OutgoingMessages
from gateway.links.link_context import link_context
from gateway.principal import GatewayItself, nobody
from policies.rules import INFO_SUFFIX

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver


class PartitionEnds(NamedTuple):
    """The sequence numbers of the oldest and of the newest event; an empty partition has last = first - 1."""

    first: int
    last: int

    @property
    def empty(self) -> bool:
        return self.last < self.first


Hub = Mapping[str, PartitionEnds]
"""The partitions of an event hub, by name."""


class _NoConnection:
    """The connection of the link: there is none."""

    blocked = closed = False
    opened = True
    remote_container = ""
    offered: Final = frozenset[str]()
    desired: Final = frozenset[str]()

    def __init__(self, scope: str) -> None:
        self.config: Final = EngineConfig(container_id="")
        self.peer: Final = PeerInfo(scope=scope, user="")


class InfoReader(InternalLink[Outgoing]):
    """A receiver of `$info` (`gateway.links.link.OutgoingLink`) that passes on each message, or only the first."""

    incoming: Final = False
    rejects: Final = True
    most: Final = 0
    user: Final = ""
    left: Final = None
    announcement_counts: Final = False
    unsettled_bytes: Final = 0
    keeps_too_much: Final = False

    def __init__(
        self, scope: Resolver, address: str, then: Callable[[Hub | AmqpError], None], *, once: bool = True
    ) -> None:
        """`then` gets what the hub has, or the error that ends the reading."""
        super().__init__(link_context(scope.name), nobody(scope.name))
        self._then: Final = then
        self._once: Final = once
        self._resolver: Final = scope
        self._answered = False
        self.engine: Final = _NoConnection(scope.name)
        self.scope: Final = scope.name
        self.name: Final = "event-hub-info"
        self.address: Final = address + INFO_SUFFIX
        self.source: Final = ABSENT._replace(present=True, address=self.address)
        self.target: Final = ABSENT._replace(present=True, address=self.name)
        self.properties: Final[ValueMap] = {}
        self.unsettled: Final = NothingUnsettled()
        self.window = 1

    def start(self) -> None:
        """Attach; `then` is called now or later."""
        try:
            self._resolver.attach_to(self, self.address, GatewayItself(self.scope, "bridge", self.address))
        except AmqpError as error:
            self.end(error)

    def accept(self, handler: Incoming | Outgoing, **_: object) -> None:
        """The node accepts the link."""
        if self.accepted(receiver := cast(Outgoing, handler)):
            receiver.on_credit()

    @property
    def credit(self) -> int:
        return self.window

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """Pass on one message."""
        body = sections.body_values(data, sections.walk(data))[0]
        if self._once:
            self.window = 0
            self._answer(_hub(body))
            self.end(None)
        else:
            self._then(_hub(body))

    def send_all(self, messages: OutgoingMessages) -> None:
        for message in messages:
            self.send(message[0], message)

    def drained(self) -> None:
        """Nothing: there is no drain."""

    def keep(self, size: int) -> None:
        """Nothing: no message is given back."""

    def take_unsettled(self) -> tuple[SendContext, ...]:
        return ()

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The node, or this reader, has ended the link."""
        if was_open:
            self.handler.on_detach(error)
        self._answer(error or AmqpError(INTERNAL_ERROR, "the event hub ended the reading", fault=Fault.GATEWAY))

    def _answer(self, answer: Hub | AmqpError) -> None:
        if not self._answered:
            self._answered = True
            self._then(answer)


class EndTracker:
    """Follows the end of one partition (`bridges.eventhubs.receiver.EndFollower`)."""

    def __init__(
        self, scope: Resolver, address: str, partition: str, now_ms: Callable[[], int], ready: Callable[[], None]
    ) -> None:
        """`ready` is called once, when the end is known or cannot be."""
        self._partition: Final = partition
        self._now_ms: Final = now_ms
        self._ready: Final = ready
        self._reader: Final = InfoReader(scope, address, self._read, once=False)
        self._answered = False
        self.last: LastEvent | None = None

    def start(self) -> None:
        """Begin to follow it."""
        self._reader.start()

    def stop(self) -> None:
        """Stop following it."""
        self._answered = True
        self._reader.end(None)

    def _read(self, found: Hub | AmqpError) -> None:
        if not isinstance(found, AmqpError) and (ends := found.get(self._partition)) is not None:
            now, last = self._now_ms(), self.last
            if last is None:  # nobody knows when that event was added
                self.last = LastEvent(ends.last, 0, now)
            else:
                self.last = LastEvent(ends.last, now if ends.last > last.sequence_number else last.enqueued_ms, now)
        if not self._answered:
            self._answered = True
            self._ready()


def _hub(body: Value) -> Hub | AmqpError:
    """The partitions in a message of `$info`; an error if Kafka could not say where they end."""
    partitions = body["partitions"] if isinstance(body, dict) and body.get("current") is not False else [{}]
    if any(entry.get("next-offset") is None for entry in partitions):
        return AmqpError(INTERNAL_ERROR, "the event hub is not available now; try again", fault=Fault.BACKEND)
    return {str(entry["partition"]): _ends(entry) for entry in partitions}


def _ends(entry: Mapping[str, str]) -> PartitionEnds:
    after = int(entry["next-offset"])
    first = entry.get("earliest-offset")
    return PartitionEnds(after if first is None else int(first), after - 1)

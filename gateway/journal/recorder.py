"""The table behind the journal: what links, crossings and refusals count, and the rows that wait to be written.

The resolver reports each decision before a node has the link, `LinkEvents` reports refusals and ends, and
`GatewayContext` reports crossings. What counts each message stands around the handler that a node gives its link, so
that a gateway without a journal pays nothing. It is used from the event loop only and never waits. Everything is
bounded: what finds no room is lost, counted, and reported by the next `lost` row.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.amqp.codec.codec import encode
from gateway.amqp.link.handlers import BatchIncoming, BatchOutgoing
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.wrappers import IncomingWrapper, OutgoingWrapper
from gateway.amqp.message.response_support import SUPPORTED, annotated
from gateway.amqp.message.sections import property_field, walk
from gateway.errors import AmqpError
from gateway.filters.parse.filter_set import kind_of
from gateway.journal.readings import LinkReading, Readings
from gateway.journal.rows import Crossed, Heading, LinkEnd, LinkSeen, LinkTotals, end_of, finished, message_text
from gateway.nodes.link import CountedLink, Delivery, Link, SendContext
from gateway.observability.redaction import redact
from gateway.response.crossing_rule import SAME_SCOPE, CrossingDecision
from gateway.response.fields import REPLY_TO, TO, address_text
from gateway.routing.event_annotations import GROUP

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link as PeerLink
    from gateway.nodes.link import MessageTarget, Transform
    from gateway.routing.link_context import HasContext
    from policies.rules import Route

MOST_FILTERS: Final = 8192
"""Bytes of an encoded filter set that are written."""


class JournalOptions(NamedTuple):
    """Of the policy's `gateway.journal`: every so manieth message (0: none), filters in full, room for rows."""

    sample: int = 0
    filters: bool = False
    buffer: int = 10_000


class LinkCounts(LinkTotals):
    """The counts of one kind of link."""

    __slots__ = ("_journal", "begun", "seen")

    def __init__(self, journal: Journal, seen: LinkSeen) -> None:
        super().__init__()
        self.begun = ""
        """How rows about single messages begin, as text, once there was one."""
        self._journal: Final = journal
        self.seen: Final = seen

    def left(self, link: CountedLink) -> None:
        """The link counts no more."""
        self._journal.ended(link)

    def instrument(self, handler: Any) -> Any:
        """The handler of a link, with counting around it."""
        return (
            _IncomingProbe(self._journal, self, handler)
            if self.seen.action == "send"
            else _OutgoingProbe(self, handler)
        )

    def reading(self, positions: Callable[[], Mapping[int, int]]) -> LinkReading | None:
        """For a link that begins to read an event log: what it tells; `positions` are asked when a row is made."""
        return self._journal.reading(self.seen, positions)


class _OutgoingProbe(OutgoingWrapper):
    """Counts the outcomes of a link on which a peer receives."""

    def __init__(self, counts: LinkCounts, handler: BatchOutgoing) -> None:
        super().__init__(handler)
        self._counts: Final = counts

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        """Count the outcome, and pass it on."""
        outcomes, name = self._counts.outcomes, outcome.name
        outcomes[name] = outcomes.get(name, 0) + 1
        self._handler.on_outcome(context, outcome)

    def on_accepted(self, contexts: list[Any]) -> None:
        """`on_outcome` for several; `link.accepted` does not count them."""
        outcomes = self._counts.outcomes
        outcomes["accepted"] = outcomes.get("accepted", 0) + len(contexts)
        self._handler.on_accepted(contexts)


class _IncomingProbe(IncomingWrapper):
    """Counts the messages of a link on which a peer sends, and samples some of them."""

    def __init__(self, journal: Journal, counts: LinkCounts, handler: BatchIncoming) -> None:
        super().__init__(handler)
        self._journal: Final = journal
        self._counts: Final = counts
        self._sample: Final = journal.options.sample
        self._left = 0
        """Messages since the last one that was sampled."""
        inner = handler.on_transfer

        def counted(delivery: Delivery, data: bytes, settled: bool) -> None:
            counts.messages += 1
            counts.bytes += len(data)
            inner(delivery, data, settled)

        def sampled(delivery: Delivery, data: bytes, settled: bool) -> None:
            self._sample_messages(((delivery, data, settled),))
            counted(delivery, data, settled)

        self.on_transfer: Final = sampled if self._sample else counted

    def on_transfers(self, messages: Sequence[tuple[Any, bytes, bool]]) -> None:
        """`on_transfer` for several."""
        counts = self._counts
        counts.messages += len(messages)
        counts.bytes += sum([len(data) for _, data, _ in messages])
        if self._sample:
            self._sample_messages(messages)
        self._handler.on_transfers(messages)

    def _sample_messages(self, messages: Sequence[tuple[Any, bytes, bool]]) -> None:
        """Write a row about every n-th message."""
        first = self._sample - 1 - self._left
        self._left = (self._left + len(messages)) % self._sample
        for _, data, settled in messages[first :: self._sample]:
            self._journal.message(self._counts, data, settled)


class JournalRow(NamedTuple):
    """A record value; `told` are the losses that it tells."""

    value: bytes
    told: dict[str, int]


class Journal:
    """What one gateway process has to say; `rows` wait to be written."""

    def __init__(self, heading: Heading, options: JournalOptions, clock: Callable[[], int]) -> None:
        self.options: Final = options
        self.rows: Final[deque[JournalRow]] = deque()
        self.lost: Final[dict[str, int]] = {"buffer": 0, "kinds": 0, "kafka": 0}
        """Totals since start: rows that found no room, links and crossings that the table had no room for, and rows
        that Kafka did not take."""
        self._told: Final[dict[str, int]] = dict.fromkeys(self.lost, 0)
        self._heading: Final = heading
        self._clock: Final = clock
        self._since = clock()
        self._seq = 0
        self._links: Final[dict[LinkSeen, LinkCounts]] = {}
        self._crossings: Final[dict[Crossed, LinkTotals]] = {}
        self.readings: Final = Readings(clock, options.buffer)

    # -- links

    def allowed(
        self, link: Link, scope: str, address: str | None, user: str | None, route: str = "",
        routes: tuple[Route, ...] = (), rule: str | None = None,
    ) -> None:  # fmt: skip
        """The policy lets this link through to where the routes lead, or to a `route` that no rule is about."""
        end = LinkEnd(route) if route else end_of(scope, address or "", rule, routes)
        end = end._replace(to_address=redact(end.to_address))
        self._count(link, self._seen(link, scope, address, user, "allow", None, None, end))

    def refused(self, link: Link, scope: str, address: str | None, user: str | None, error: AmqpError) -> None:
        """It gets an error: from the policy, or from a node that the policy let it through to."""
        counts = link.counter
        by, end = "policy", LinkEnd()
        if address is None:
            terminus = link.target if link.incoming else link.source
            known = terminus.present and not terminus.coordinator
            end = LinkEnd("temporary" if terminus.dynamic else "anonymous" if known else "none")
        if isinstance(counts, LinkCounts):
            by, end = "node", counts.seen.end
            counts.attached -= counts.attached > 0
            self.ended(link)
        denied = self._counts_of(self._seen(link, scope, address, user, "deny", error.condition, by, end))
        denied.attached += 1

    def link_refused(self, link: PeerLink, error: AmqpError) -> None:
        """The same, when the resolver has long handed it on: the node has thought about it."""
        if isinstance(counts := link.counter, LinkCounts):
            self.refused(link, counts.seen.scope, link.address, counts.seen.user, error)

    def ended(self, link: CountedLink) -> None:
        """The link counts no more."""
        if isinstance(counts := link.counter, LinkCounts):
            link.counter = None
            counts.links -= 1

    def counted(self, link: PeerLink) -> None:
        """What a link has counted itself, just before `Report` takes it."""
        counts = link.counter
        if not isinstance(counts, LinkCounts):
            return
        if not link.incoming:
            counts.messages += link.transfers
        if link.accepted:
            counts.add(counts.outcomes, "accepted", link.accepted)
        for name, count in link.outcome_counts.items():
            counts.add(counts.outcomes, name, count)

    def message_refused(self, link: PeerLink, error: AmqpError) -> None:
        """One message of it was refused."""
        if isinstance(counts := link.counter, LinkCounts):
            counts.add(counts.refused, error.condition)

    def _count(self, link: Link, seen: LinkSeen) -> None:
        counts = self._counts_of(seen)
        counts.attached += 1
        counts.links += 1
        link.counter = counts

    def _counts_of(self, seen: LinkSeen) -> LinkCounts:
        counts = self._links.get(seen)
        if counts is None:
            counts = LinkCounts(self, seen)
            if len(self._links) < self.options.buffer:
                self._links[seen] = counts
            else:
                self.lost["kinds"] += 1
        return counts

    def _seen(
        self, link: Link, scope: str, address: str | None, user: str | None, decision: str, condition: str | None,
        refused_by: str | None, end: LinkEnd,
    ) -> LinkSeen:  # fmt: skip
        action = "send" if link.incoming else "receive"
        wanted = {} if link.incoming else link.source.filter
        names = tuple(sorted(str(kind_of(getattr(each, "descriptor", None))) for each in wanted.values()))
        group = None if link.incoming else link.properties.get(GROUP)
        return LinkSeen(
            scope, user, action, redact(address), decision, condition, refused_by, end, names,
            self._filters(wanted) if wanted and self.options.filters else None,
            redact(group) if isinstance(group, str) else None,
        )  # fmt: skip

    def reading(self, seen: LinkSeen, positions: Callable[[], Mapping[int, int]]) -> LinkReading | None:
        """A link of this kind begins to read an event log."""
        found = self.readings.begin(seen, positions)
        if found is None:
            self.lost["kinds"] += 1
        return found

    @staticmethod
    def _filters(wanted: Any) -> str | None:
        """The whole set, encoded; None where it is too long to keep."""
        encoded = encode(dict(wanted))
        return base64.b64encode(encoded).decode() if len(encoded) <= MOST_FILTERS else None

    # -- messages

    def crossing(
        self, origin: HasContext, target: MessageTarget, choice: CrossingDecision, crossing: Transform | None
    ) -> Transform | None:
        """The crossing, with counting around it; what stays in its scope crosses nothing."""
        if choice is SAME_SCOPE:
            return crossing
        reply_to = target.context.reply_address
        address = target.address if reply_to is None else target.target.address
        crossed = Crossed(
            origin.context.scope, origin.context.replies, target.context.scope, redact(address),
            None if reply_to is None else reply_to.name, SUPPORTED in target.target.capabilities,
            target.announcement_counts, *choice,
        )  # fmt: skip
        counts = self._crossing(crossed)

        def counting(data: bytes) -> bytes:
            nonlocal counts
            if not counts.links:  # left the table while nothing crossed
                counts = self._crossing(crossed)
            counts.messages += 1
            counts.bytes += len(data)
            if crossing is None:
                return data
            try:
                return crossing(data)
            except AmqpError as error:
                counts.add(counts.refused, error.condition)
                raise

        return counting

    def _crossing(self, crossed: Crossed) -> LinkTotals:
        counts = self._crossings.get(crossed)
        if counts is None:
            counts = LinkTotals()
            counts.links = 1
            if len(self._crossings) < self.options.buffer:
                self._crossings[crossed] = counts
            else:
                self.lost["kinds"] += 1
        return counts

    def message(self, counts: LinkCounts, data: bytes, settled: bool) -> None:
        """A row about one message: where it says it goes, how large it is; nothing else of it."""
        self._seq += 1
        if len(self.rows) >= self.options.buffer:
            self.lost["buffer"] += 1
            return
        if not counts.begun:
            counts.begun = self._heading.begun("message", counts.seen.fields())
        told = message_text(len(data), settled, annotated(data), _addresses(data))
        self.rows.append(JournalRow(finished(counts.begun, self._seq, now := self._clock(), now, told), {}))

    # -- rows

    def collect(self) -> Iterator[None]:
        """Make rows of what was counted since the last time; stops after each, so that others have their turn."""
        start, now = self._since, self._clock()
        self._since = now
        for seen, counts in list(self._links.items()):
            if counts.any:
                self._put("link", start, now, {**seen.fields(), "attached": counts.attached, **_counted(counts)})
                yield
            elif counts.links <= 0:
                del self._links[seen]
        for crossed, totals in list(self._crossings.items()):
            if totals.any:
                self._put("crossing", start, now, {**crossed._asdict(), **_counted(totals)})
                yield
            else:
                totals.links = 0
                del self._crossings[crossed]
        for told in self.readings.rows():
            if told is not None:
                seen, fields = told
                self._put("reading", start, now, {**seen.fields(), **fields})
            yield
        self._tell(start, now)

    def _tell(self, start: int, now: int) -> None:
        """The losses that no row tells yet; they wait while there is no room for this one either."""
        untold = {cause: count - self._told[cause] for cause, count in self.lost.items() if count > self._told[cause]}
        if untold and len(self.rows) < self.options.buffer:
            for cause, count in untold.items():
                self._told[cause] += count
            self._put("lost", start, now, {"count": sum(untold.values()), "causes": untold}, untold)

    def _put(
        self, kind: str, start: int, now: int, fields: dict[str, Any], told: dict[str, int] | None = None
    ) -> None:
        self._seq += 1
        if len(self.rows) >= self.options.buffer:
            self.lost["buffer"] += 1
        else:
            self.rows.append(JournalRow(self._heading.row(kind, self._seq, start, now, fields), told or {}))

    def lose(self, row: JournalRow) -> None:
        """Kafka has not taken this row: what it told is untold again."""
        self.lost["kafka"] += 1
        for cause, count in row.told.items():
            self._told[cause] -= count


def _addresses(data: bytes) -> dict[str, str | None]:
    """Where a message says that it and its response go, or why that cannot be read."""
    found: dict[str, str | None] = {}
    try:
        layout = walk(data)
        for name, index in (("message_to", TO), ("message_reply_to", REPLY_TO)):
            if raw := property_field(data, layout, index):
                found[name] = redact(address_text(raw, name))
    except AmqpError as error:
        found["malformed"] = error.condition
    return found


def _counted(counts: LinkTotals) -> dict[str, Any]:
    """The counts, which begin anew."""
    made = {
        "messages": counts.messages, "bytes": counts.bytes, "outcomes": counts.outcomes, "refused": counts.refused,
    }  # fmt: skip
    counts.clear()
    return made

"""The table of the journal: counts of links, crossings and refusals, and the rows that wait to be written.

The resolver reports each decision before a node accepts the link, `LinkEvents` reports refusals and ends, and
`GatewayContext` reports crossings. Messages are counted by a wrapper of the link's handler, so a gateway without a
journal has no overhead. It is used from the event loop only and never waits. Everything is bounded: rows without room
are lost, counted, and reported in the next `lost` row.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.amqp.codec.codec import encode
from gateway.amqp.link.handlers import Transfer
from gateway.amqp.message.response_support import SUPPORTED
from gateway.errors import AmqpError
from gateway.filters.parse.filter_set import kind_of
from gateway.journal.link_counts import JournalOptions, LinkCounts
from gateway.journal.message_rows import message_rows
from gateway.journal.readings import LinkReading, Readings
from gateway.journal.rows import Crossed, Heading, LinkEnd, LinkSeen, LinkTotals, end_of
from gateway.links.link import CountedLink, NodeLink
from gateway.observability.redaction import redact
from gateway.response.crossing import Crossing, Messages
from gateway.response.crossing_rule import SAME_SCOPE, CrossingDecision
from gateway.routing.event_annotations import GROUP

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.links.link import MessageTarget, Transform
    from gateway.links.link_context import HasContext
    from policies.rules import Route

MOST_FILTERS: Final = 8192
"""Maximum bytes of an encoded filter set in a row."""


RowSource = Callable[[], Iterable[tuple[str, dict[str, object]] | None]]
"""Yields kind and fields of rows; None: a pause for other work."""


JournalRow: TypeAlias = tuple[bytes, Mapping[str, int]]
"""A record value, and the losses that it reports: a plain tuple, because there may be one for each message."""
_NO_LOSSES: Final[Mapping[str, int]] = {}


class Journal:
    """The journal of one gateway process; `rows` wait to be written."""

    def __init__(self, heading: Heading, options: JournalOptions, clock: Callable[[], int]) -> None:
        self.options: Final = options
        self.rows: Final[deque[JournalRow]] = deque()
        self.lost: Final[dict[str, int]] = {"buffer": 0, "kinds": 0, "kafka": 0}
        """Totals since start: rows without room, kinds of links and crossings without room, rows that Kafka refused."""
        self._reported: Final[dict[str, int]] = dict.fromkeys(self.lost, 0)
        self._heading: Final = heading
        self._clock: Final = clock
        self._since = clock()
        self._seq = 0
        self._links: Final[dict[LinkSeen, LinkCounts]] = {}
        self._crossings: Final[dict[Crossed, LinkTotals]] = {}
        self.readings: Final = Readings(clock, options.buffer)
        self.sources: Final[list[RowSource]] = []
        """Called for further rows whenever rows are made."""

    # -- links

    def allowed(
        self, link: NodeLink, scope: str, address: str | None, user: str | None, route: str = "",
        routes: tuple[Route, ...] = (), rule: str | None = None,
    ) -> None:  # fmt: skip
        """The policy allows a link to its routes, or to a `route` without a rule."""
        end = LinkEnd(route) if route else end_of(scope, address or "", rule, routes)
        end = end._replace(to_address=redact(end.to_address))
        self._count(link, self._seen(link, scope, address, user, "allow", None, None, end))

    def refused(self, link: NodeLink, scope: str, address: str | None, user: str | None, error: AmqpError) -> None:
        """A link is refused, by the policy or by the node that the policy allowed."""
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

    def link_refused(self, link: Link, error: AmqpError) -> None:
        """The node has refused a link after a while."""
        if isinstance(counts := link.counter, LinkCounts):
            self.refused(link, counts.seen.scope, link.address, counts.seen.user, error)

    def ended(self, link: CountedLink) -> None:
        """The link has ended."""
        if isinstance(counts := link.counter, LinkCounts):
            link.counter = None
            counts.links -= 1

    def counted(self, link: Link) -> None:
        """Add what a link has counted itself, just before `LinkEvents` resets it."""
        counts = link.counter
        if not isinstance(counts, LinkCounts):
            return
        if not link.incoming:
            counts.messages += link.transfers
        if link.accepted:
            counts.add(counts.outcomes, "accepted", link.accepted)
        for name, count in link.outcome_counts.items():
            counts.add(counts.outcomes, name, count)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        """A message of a link was refused."""
        if isinstance(counts := link.counter, LinkCounts):
            counts.add(counts.refused, error.condition)

    def _count(self, link: NodeLink, seen: LinkSeen) -> None:
        link.counter = counts = self._counts_of(seen)
        counts.attached += 1
        counts.links += 1

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
        self, link: NodeLink, scope: str, address: str | None, user: str | None, decision: str, condition: str | None,
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
        """The counter of a link that begins to read an event log."""
        found = self.readings.begin(seen, positions)
        if found is None:
            self.lost["kinds"] += 1
        return found

    @staticmethod
    def _filters(wanted: Any) -> str | None:
        """The encoded filter set; None if it is too long."""
        encoded = encode(dict(wanted))
        return base64.b64encode(encoded).decode() if len(encoded) <= MOST_FILTERS else None

    # -- messages

    def crossing(
        self, origin: HasContext, target: MessageTarget, choice: CrossingDecision, crossing: Transform | None
    ) -> Transform | None:
        """A wrapper of the transform that counts; the transform itself within one scope."""
        if choice is SAME_SCOPE:
            return crossing
        reply_to = target.context.reply_address
        address = target.address if reply_to is None else target.target.address
        crossed = Crossed(
            origin.context.scope, origin.context.replies, target.context.scope, redact(address),
            None if reply_to is None else reply_to.name, SUPPORTED in target.target.capabilities,
            target.announcement_counts, *choice,
        )  # fmt: skip
        return self._counting(crossed, crossing)

    def _counting(self, crossed: Crossed, crossing: Transform | None) -> Transform:
        counts = self._crossing(crossed)

        def count(messages: int, size: int) -> LinkTotals:
            nonlocal counts
            if not counts.links:  # it left the table while it was unused
                counts = self._crossing(crossed)
            counts.messages += messages
            counts.bytes += size
            return counts

        def counting(data: bytes) -> bytes:
            now = count(1, len(data))
            if crossing is None:
                return data
            try:
                return crossing(data)
            except AmqpError as error:
                now.add(now.refused, error.condition)
                raise

        if not isinstance(crossing, Crossing):
            return counting

        def several(messages: Messages, start: int, end: int) -> list[bytes]:
            changed = inner(messages, start, end)
            count(len(changed), sum([len(data) for _, data, _ in messages[start : start + len(changed)]]))
            return changed

        inner = crossing.several
        return Crossing(counting, several)

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

    def messages(self, counts: LinkCounts, messages: Sequence[Transfer]) -> None:
        """Write a row about each message: its addresses and its size, nothing else."""
        count = len(messages)
        room = min(count, max(0, self.options.buffer - len(self.rows)))
        if not counts.begun:
            counts.begun = self._heading.begun("message", counts.seen.fields())
        chosen = messages if room == count else messages[:room]
        values = message_rows(chosen, counts.begun, self._clock(), self._seq + 1)
        self.rows.extend([(value, _NO_LOSSES) for value in values])
        self._seq += count
        self.lost["buffer"] += count - room

    # -- rows

    def collect(self) -> Iterator[None]:
        """Make rows of all counts; yields after each, so that other work gets its turn."""
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
        for reading in self.readings.rows():
            if reading is not None:
                seen, fields = reading
                self._put("reading", start, now, {**seen.fields(), **fields})
            yield
        for row in chain.from_iterable(source() for source in self.sources):
            if row is not None:
                self._put(row[0], start, now, row[1])
            yield
        self._report_losses(start, now)

    def _report_losses(self, start: int, now: int) -> None:
        """Write a row about losses that no row has reported yet, if there is room."""
        since = {cause: count - self._reported[cause] for cause, count in self.lost.items()}
        unreported = {cause: count for cause, count in since.items() if count > 0}
        if unreported and len(self.rows) < self.options.buffer:
            for cause, count in unreported.items():
                self._reported[cause] += count
            self._put("lost", start, now, {"count": sum(unreported.values()), "causes": unreported}, unreported)

    def _put(
        self, kind: str, start: int, now: int, fields: dict[str, Any], reported: dict[str, int] | None = None
    ) -> None:
        self._seq += 1
        if len(self.rows) >= self.options.buffer:
            self.lost["buffer"] += 1
        else:
            self.rows.append((self._heading.row(kind, self._seq, start, now, fields), reported or _NO_LOSSES))

    def lose(self, row: JournalRow) -> None:
        """Kafka has refused a row: report its losses again."""
        self.lost["kafka"] += 1
        for cause, count in row[1].items():
            self._reported[cause] -= count


def _counted(counts: LinkTotals) -> dict[str, Any]:
    """Take the counts and reset them."""
    made = {
        "messages": counts.messages, "bytes": counts.bytes, "outcomes": counts.outcomes, "refused": counts.refused,
    }  # fmt: skip
    counts.clear()
    return made

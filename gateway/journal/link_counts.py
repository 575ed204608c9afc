"""Counts the messages and outcomes of one kind of link; wrappers of the links' handlers call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gateway.amqp.link.handlers import BatchIncoming, BatchOutgoing, Transfer
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.transactions import PostedMessage, PostedMessages
from gateway.amqp.link.wrappers import IncomingWrapper, OutgoingWrapper
from gateway.journal.readings import LinkReading
from gateway.journal.rows import LinkSeen, LinkTotals
from gateway.links.link import CountedLink, Delivery, SendContext


class JournalOptions(NamedTuple):
    """Settings of `gateway.journal`: sample every n-th message (0: none), filters in full, room for rows."""

    sample: int = 0
    filters: bool = False
    buffer: int = 10_000


class CountingJournal(Protocol):
    """The journal (`recorder.Journal`), as the counts of its links use it."""

    @property
    def options(self) -> JournalOptions: ...
    def ended(self, link: CountedLink) -> None: ...
    def reading(self, seen: LinkSeen, positions: Callable[[], Mapping[int, int]]) -> LinkReading | None: ...
    def messages(self, counts: LinkCounts, messages: Sequence[Transfer]) -> None: ...


class LinkCounts(LinkTotals):
    """The counts of one kind of link."""

    __slots__ = ("_journal", "begun", "seen")

    def __init__(self, journal: CountingJournal, seen: LinkSeen) -> None:
        super().__init__()
        self.begun = ""
        """The common beginning of rows about single messages, as text, once there was one."""
        self._journal: Final = journal
        self.seen: Final = seen

    def left(self, link: CountedLink) -> None:
        """The link has ended."""
        self._journal.ended(link)

    def instrument(self, handler: Any) -> Any:
        """A wrapper of the link's handler that counts."""
        return (
            _IncomingProbe(self._journal, self, handler)
            if self.seen.action == "send"
            else _OutgoingProbe(self, handler)
        )

    def reading(self, positions: Callable[[], Mapping[int, int]]) -> LinkReading | None:
        """The counter of a link that begins to read an event log; `positions` is called when a row is made."""
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


class _IncomingProbe(IncomingWrapper[BatchIncoming]):
    """Counts the messages of a link on which a peer sends, and samples some of them."""

    def __init__(self, journal: CountingJournal, counts: LinkCounts, handler: BatchIncoming) -> None:
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

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        """`on_transfer` for several."""
        counts = self._counts
        counts.messages += len(messages)
        counts.bytes += sum([len(data) for _, data, _ in messages])
        if self._sample:
            self._sample_messages(messages)
        self._handler.on_transfers(messages)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """A message in a transaction is counted like any other."""
        self._counts.messages, self._counts.bytes = self._counts.messages + 1, self._counts.bytes + len(data)
        self._handler.on_post(post, data)

    def on_posts(self, posts: PostedMessages) -> None:
        """`on_post` for several."""
        counts = self._counts
        counts.messages += len(posts.messages)
        counts.bytes += sum([len(data) for _, data, _ in posts.messages])
        self._handler.on_posts(posts)

    def _sample_messages(self, messages: Sequence[Transfer]) -> None:
        """Write a row about every n-th message."""
        first = self._sample - 1 - self._left
        self._left = (self._left + len(messages)) % self._sample
        if chosen := messages[first :: self._sample]:
            self._journal.messages(self._counts, chosen)

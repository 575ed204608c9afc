"""What an operator sees of connections and links: one log line and one counter for each event.

Nothing here runs per message: links and connections count for themselves, and `flush` takes their counts when
they end and when somebody scrapes. Log lines carry the connection's and link's names, so that one can be followed
through; never a body, a secret or a cookie. Metric labels are words of the policy, never what a peer sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import STANDARD, AmqpError, Fault
from gateway.filters.evaluate.readers import UNREAD
from gateway.filters.evaluate.terms import UNSEARCHED
from gateway.observability.counters import LinkCounters, Reading
from gateway.observability.logs import get_logger
from gateway.observability.metrics import Metrics
from gateway.observability.redaction import shown

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.journal.recorder import Journal


class _ClusterReadings(Protocol):
    def counts(self) -> Mapping[str, int]: ...
    def states(self) -> Mapping[str, float]: ...


def kafka_events(clusters: Mapping[str, _ClusterReadings]) -> Iterator[Reading]:
    """The counters of clusters, for metrics."""
    for name, cluster in clusters.items():
        for event, count in cluster.counts().items():
            yield "kafka_events", (("cluster", name), ("event", event)), float(count)


def kafka_states(clusters: Mapping[str, _ClusterReadings]) -> Iterator[Reading]:
    """The gauges of clusters."""
    for name, cluster in clusters.items():
        for state, value in cluster.states().items():
            yield f"kafka_{state}", (("cluster", name),), value


_REFUSED: Final = 100
"""Refused links of one connection that are logged each; then the 128th, 256th, 512th…: it cannot flood the log."""


def _filter_events() -> Iterator[Reading]:
    """What LIKE did not search, and what was not looked through for any filter, for metrics."""
    yield "filter_texts_unsearched", (), float(UNSEARCHED.texts)
    yield "filter_sections_unread", (), float(UNREAD.sections)


class LinkEvents:
    """Log and counters of one gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics: Final = metrics
        metrics.count_source(_filter_events)
        self.log: Final = get_logger("gateway")
        self.journal: Journal | None = None

    def bump(self, name: str, *labels: str) -> None:
        """Count one rare event."""
        self.metrics.bump(name, *labels)

    def bad_input(self, reason: str, **ids: object) -> None:
        """Something a peer did that AMQP or our limits forbid."""
        self.bump("bad_input", reason)
        self.log.warning("bad input", reason=reason, **ids)

    def warnings(self, texts: Iterable[str]) -> None:
        """What is accepted of a policy and its files, and should not stay so."""
        for text in texts:
            self.log.warning("policy warning", warning=text)

    def link_attached(self, link: Link) -> None:
        """A link was asked for and not refused at once."""
        self.bump("links_attached", link.scope, _direction(link))
        self.log.info("link attached", **_ids(link))

    def link_refused(self, link: Link, error: AmqpError) -> None:
        """A link was refused; `__cause__` holds a reason that is not for the peer."""
        self.bump("links_refused", link.scope, _label(error))
        if self.journal is not None:
            self.journal.link_refused(link, error)
        self._cookie(error)
        level = self.log.error if error.fault is Fault.GATEWAY else self.log.warning
        if (count := link.engine.refusals) <= _REFUSED or count & (count - 1) == 0:
            level("link refused", **_ids(link), **_why(error), refused=count)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        """A link was detached, by whichever side."""
        self.flush(link)
        if self.journal is not None:
            self.journal.ended(link)
        self.bump("links_ended", link.scope, _label(error) if error else "none")
        self.log.info("link ended", **_ids(link), **(_why(error) if error else {}))

    def message_refused(self, link: Link, error: AmqpError) -> None:
        """One message was refused; the sender hears the condition, the operator the reason behind it."""
        self._cookie(error)
        self.bump("messages_refused", link.scope, _label(error))
        if self.journal is not None:
            self.journal.message_refused(link, error)
        link.refusals += 1
        if link.refusals & (link.refusals - 1) == 0:  # the 1st, 2nd, 4th, 8th…: one link cannot flood the log
            self.log.warning("message refused", **_ids(link), **_why(error), refused=link.refusals)

    def _cookie(self, error: AmqpError) -> None:
        if (reason := getattr(error.__cause__, "reason", None)) is not None:
            self.bump("cookie_failures", str(reason))

    def task_failed(self, name: str, error: BaseException) -> None:
        """A background task ended with an error: a bug of ours, or something it did not expect."""
        self.bump("task_failures", name.partition(":")[0])
        self.log.error("task failed", task=name, exc_info=error)

    def task_restarted(self, name: str) -> None:
        """An essential task that had failed is begun again."""
        self.bump("task_restarts", name.partition(":")[0])

    # -- counts of links

    def flush(self, link: Link) -> None:
        """Take what a link has counted since the last time."""
        if self.journal is not None:
            self.journal.counted(link)
        counters = self._counters(link)
        if not (link.transfers or link.accepted or link.outcome_counts):
            return  # nearly every link of a crowd
        if link.incoming:
            counters.deliveries_in += link.transfers
        else:
            counters.deliveries_out += link.transfers
        counters.accepted += link.accepted
        for name, count in link.outcome_counts.items():
            setattr(counters, name, getattr(counters, name) + count)
        link.recount()

    def _counters(self, link: Link) -> LinkCounters:
        rule = getattr(link.decision, "rule", None)
        return self.metrics.links(link.scope, _unruled(link) if rule is None else rule)


def _unruled(link: Link) -> str:
    """What to call a link that no address rule decided: one of a few words."""
    address = link.address
    if address is None:
        return "$anonymous" if link.incoming and not link.target.dynamic else "$temp"
    return next((word for word in ("$temp", "$replies") if address.startswith(word)), "none")


def _label(error: AmqpError) -> str:
    """The condition as a metric label; a peer's own word is one of `other`, for there may be any number of them."""
    return error.condition if error.condition in STANDARD else "other"


def _direction(link: Link) -> str:
    return "in" if link.incoming else "out"


def _ids(link: Link) -> dict[str, str | None]:
    return {
        "connection": link.engine.peer.connection,
        "link": shown(link.name),
        "direction": _direction(link),
        "address": shown(link.address),
        "user": link.engine.peer.user,
    }


def _why(error: AmqpError) -> dict[str, str]:
    reason = getattr(error.__cause__, "reason", None)
    why = {"condition": error.condition, "description": shown(error.description)}
    return why | ({"reason": str(reason)} if reason is not None else {})

"""Events of connections and links for operators: one log line and one counter for each event.

Nothing here runs per message: links and connections count by themselves, and `flush` takes their counts when they end
and when metrics are scraped. Log lines have the names of connection and link, so that one can be followed; they never
have a body, a secret or a cookie. Metric labels are words of the policy, never text of a peer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import STANDARD, AmqpError, Fault
from gateway.filters.evaluate.readers import UNREAD
from gateway.filters.evaluate.terms import UNSEARCHED
from gateway.observability.counters import Reading
from gateway.observability.logs import get_logger
from gateway.observability.measures import RuleMeasures
from gateway.observability.metrics import Metrics
from gateway.observability.redaction import redact
from gateway.observability.refusals import RecentRefusal, RecentRefusals
from gateway.observability.roster import Roster

if TYPE_CHECKING:
    from gateway.amqp.link.config import PeerInfo
    from gateway.amqp.link.link import Link
    from gateway.amqp.transport.connection import Connection


class LinkJournal(Protocol):
    """The journal of a gateway (`gateway.journal.recorder.Journal`), as links report to it."""

    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def ended(self, link: Link) -> None: ...
    def counted(self, link: Link) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...


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


NO_RULE: Final = ("$anonymous", "$temp", "$replies", "none")
"""The labels of links that no address rule decided."""
_REFUSED: Final = 100
"""Each of this many refused links of a connection is logged, then only the 128th, 256th, 512th…."""


def _filter_events() -> Iterator[Reading]:
    """Texts that LIKE did not search, and sections that no filter searched, for metrics."""
    yield "filter_texts_unsearched", (), float(UNSEARCHED.texts)
    yield "filter_sections_unread", (), float(UNREAD.sections)


TaskListeners = tuple[Callable[[str, BaseException], None], Callable[[str], None], Callable[[str], None]]
"""Called when a task has failed, when an essential one is restarted, and when one begins."""


class LinkEvents:
    """Log and counters of one gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics: Final = metrics
        metrics.count_source(_filter_events)
        self.measures: Final = RuleMeasures()
        metrics.histogram_source(self.measures.samples)
        self.log: Final = get_logger("gateway")
        self.journal: LinkJournal | None = None
        self.refusals: Final = RecentRefusals()
        self.connections: Final[Roster[Connection]] = Roster()

    def increment(self, name: str, *labels: str) -> None:
        """Count one rare event."""
        self.metrics.increment(name, *labels)

    def bad_input(self, reason: str, **ids: object) -> None:
        """A peer did something that AMQP or our limits forbid."""
        self.increment("bad_input", reason)
        self.log.warning("bad input", reason=reason, **ids)

    def no_descriptors(self, bind: str, peer: str) -> None:
        """A connection failed because the process has no file descriptor left."""
        self.bad_input("no-file-descriptors", bind=bind, peer=peer)

    def tls_failed(self, bind: str, peer: str, error: OSError) -> None:
        """A TLS handshake failed: no TLS, no common version, or a certificate that is not trusted."""
        self.increment("tls_failures")
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        self.log.warning("TLS handshake failed", error=why, bind=bind, peer=peer)

    def warnings(self, texts: Iterable[str]) -> None:
        """A policy or its files are accepted, but have something that should be changed."""
        for text in texts:
            self.log.warning("policy warning", warning=text)

    def connected(self, connection: Connection) -> None:
        """A socket was accepted, or connected to a container of ours."""
        self.connections.add(connection, time.time())

    def disconnected(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.remove(connection)

    def connection_opened(self, connection: Connection, /, **ids: object) -> None:
        """Both sides have opened a connection; log who it is, and how it is protected."""
        engine, tls = connection.engine, connection.ssl_object
        self.log.info(
            "connection open" if not connection.peer.connector else "connector open",
            **ids,
            mechanism=connection.peer.mechanism or None,
            tls=None if tls is None else tls.version(),
            container=redact(engine.remote_container if engine is not None else None),
            product=redact(engine.remote_product) if engine is not None else "",
        )

    def connection_closed(self, connection: Connection, error: AmqpError | None) -> None:
        """A connection that was open has ended, and is still known here."""
        self.log.info(
            "connection closed",
            connection=connection.name,
            user=connection.peer.user,
            error=error and str(error),
            seconds=_seconds(self.connections.since(connection)),
            bytes_in=connection.bytes_in,
            bytes_out=connection.bytes_out,
        )

    def link_attached(self, link: Link) -> None:
        """A link was requested and not refused at once."""
        link.since = time.time()
        self.measure(link)
        self.increment("links_attached", link.scope, _direction(link))
        self.log.info("link attached", **link_ids(link))

    def link_refused(self, link: Link, error: AmqpError) -> None:
        """A link was refused; `__cause__` holds a reason that is not for the peer."""
        self.increment("links_refused", link.scope, _label(error))
        self.refusals.add(_refusal("link", link, error))
        if self.journal is not None:
            self.journal.link_refused(link, error)
        self._cookie(error)
        level = self.log.error if error.fault is Fault.GATEWAY else self.log.warning
        if (count := link.engine.refusals) <= _REFUSED or count & (count - 1) == 0:
            level("link refused", **link_ids(link), **_why(error), refused=count)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        """A link was detached, by either side."""
        counts = {name: count for name, count in link.counts().items() if count}
        self.flush(link)
        if self.journal is not None:
            self.journal.ended(link)
        self.increment("links_ended", link.scope, _label(error) if error else "none")
        why = _why(error) if error else {}
        self.log.info("link ended", **link_ids(link), **why, seconds=_seconds(link.since or None), counts=counts)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        """One message was refused; the sender gets the condition, the log also the reason behind it."""
        self._cookie(error)
        self.increment("messages_refused", link.scope, _label(error))
        self.refusals.add(_refusal("message", link, error))
        if self.journal is not None:
            self.journal.message_refused(link, error)
        link.refusals += 1
        if link.refusals & (link.refusals - 1) == 0:  # the 1st, 2nd, 4th, 8th…: one link cannot flood the log
            self.log.warning("message refused", **link_ids(link), **_why(error), refused=link.refusals)

    def _cookie(self, error: AmqpError) -> None:
        if (reason := getattr(error.__cause__, "reason", None)) is not None:
            self.increment("cookie_failures", str(reason))

    def login_failed(self, peer: PeerInfo, reason: str, claimed: str) -> None:
        """Somebody has failed to log in at a listener."""
        self.increment("sasl_failures", reason)
        about = peer.scope, claimed, peer.connection, None, None, "sasl", reason
        self.refusals.add(RecentRefusal(time.time(), "login", *about))
        ids = {"connection": peer.connection, "peer": peer.address}
        self.log.warning("authentication failed", reason=reason, claimed=claimed, **ids)

    def task_failed(self, name: str, error: BaseException) -> None:
        """A background task ended with an unexpected error."""
        self.increment("task_failures", name.partition(":")[0])
        self.log.error("task failed", task=name, exc_info=error)

    @property
    def task_listeners(self) -> TaskListeners:
        """What the supervisor of all tasks calls."""
        return self.task_failed, self.task_restarted, self.task_kept

    def task_kept(self, name: str) -> None:
        """An essential task begins: from now on its failures are shown, at 0."""
        for counter in ("task_failures", "task_restarts"):
            self.metrics.expect(counter, name.partition(":")[0])

    def task_restarted(self, name: str) -> None:
        """An essential task was restarted after an error."""
        self.increment("task_restarts", name.partition(":")[0])

    # -- counts of links

    def measure(self, link: Link) -> None:
        """Have a link count sizes and times at its rule, which a reload may have changed."""
        deliveries = link.held if link.incoming else link.unsettled
        deliveries.measures = self.measures.of(link.scope, rule_of(link))

    def flush(self, link: Link) -> None:
        """Add what a link has counted since the last call to the metrics."""
        if self.journal is not None:
            self.journal.counted(link)
        self.measure(link)
        counters = self.metrics.links(link.scope, rule_of(link))
        if not (link.transfers or link.accepted or link.outcome_counts):
            return  # most links are idle
        if link.incoming:
            counters.deliveries_in += link.transfers
        else:
            counters.deliveries_out += link.transfers
        counters.accepted += link.accepted
        for name, count in link.outcome_counts.items():
            setattr(counters, name, getattr(counters, name) + count)
        link.recount()


def rule_of(link: Link) -> str:
    """The label of a link: the pattern of its address rule, or one of `NO_RULE`."""
    rule: str | None = getattr(link.decision, "rule", None)
    return _label_without_rule(link) if rule is None else rule


def _label_without_rule(link: Link) -> str:
    """The label of a link that no address rule decided: one of a few words."""
    address = link.address
    if address is None:
        return "$anonymous" if link.incoming and not link.target.dynamic else "$temp"
    return next((word for word in ("$temp", "$replies") if address.startswith(word)), "none")


def _seconds(since: float | None) -> float | None:
    """How long something was there, in seconds with milliseconds; `since` in seconds since 1970."""
    return None if since is None else round(max(0.0, time.time() - since), 3)


def _label(error: AmqpError) -> str:
    """The condition as a metric label; `other` for one that a peer invented, to bound the number of labels."""
    return error.condition if error.condition in STANDARD else "other"


def _direction(link: Link) -> str:
    return "in" if link.incoming else "out"


def _refusal(kind: str, link: Link, error: AmqpError) -> RecentRefusal:
    action = "send" if link.incoming else "receive"
    who = link.scope, link.user, link.engine.peer.connection
    return RecentRefusal(time.time(), kind, *who, action, link.address, error.condition, error.description)


def link_ids(link: Link) -> dict[str, str | None]:
    """What a log line says of a link, so that it can be found."""
    return {
        "connection": link.engine.peer.connection,
        "link": redact(link.name),
        "direction": _direction(link),
        "address": redact(link.address),
        "user": link.user,
    }


def _why(error: AmqpError) -> dict[str, str]:
    reason = getattr(error.__cause__, "reason", None)
    why = {"condition": error.condition, "description": redact(error.description)}
    return why | ({"reason": str(reason)} if reason is not None else {})

"""Every metric of the gateway: its type, its labels and what it says. Pure.

`docs/metrics.md` is made of this table (`scopegate schema --metrics`), and a test compares both with a scrape. A label
has names of the policy or words of this project, never what a peer says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]
Values = tuple[str, ...]
_LAG: Final = "Records by which the slowest {} of a rule is behind, measured every 15 s; NaN: unknown."
_CONDITIONS: Final = "condition"


class MetricDescription(NamedTuple):
    """A metric."""

    kind: Kind
    text: str
    labels: Values = ()
    known: tuple[Values, ...] = ()
    """The values of each label, if they are known before anything happens; the series are shown at 0."""


def _counter(text: str, *labels: str, known: tuple[Values, ...] = ()) -> MetricDescription:
    return MetricDescription("counter", text, labels, known)


def _gauge(text: str, *labels: str) -> MetricDescription:
    return MetricDescription("gauge", text, labels)


def _histogram(text: str, *labels: str) -> MetricDescription:
    return MetricDescription("histogram", text, labels)


_BAD_INPUT: Final = (
    "too-many-connections",
    "too-many-connections-of-user",
    "too-many-opens",
    "too-many-opens-of-user",
    "no-file-descriptors",
    "http",
    "http-too-many-connections",
    "http-too-slow",
)
_LOGINS: Final = ("credentials", "malformed-credentials", "authorization-identity", "reserved-name", "basic")
RARE: Final[dict[str, MetricDescription]] = {
    "bad_input": _counter("Peers that broke AMQP or a limit, by what they did.", "reason", known=(_BAD_INPUT,)),
    "sasl_failures": _counter("Failed authentication attempts.", "reason", known=(_LOGINS,)),
    "logins_revoked": _counter("Connections closed because a reload took their login away.", "scope"),
    "tls_failures": _counter("Failed TLS handshakes."),
    "connections_accepted": _counter("Connections accepted.", "scope"),
    "connections_closed": _counter("Accepted connections that have ended.", "scope"),
    "idle_timeouts": _counter("Connections closed because nothing came within our idle time-out.", "scope"),
    "connector_opens": _counter("Connections a connector has opened.", "connector"),
    "bridge_failures": _counter("Times an end of a bridge was not there, or no more.", "bridge"),
    "pull_failures": _counter("Times a queue could not be pulled from, or no more.", "connector"),
    "connector_failures": _counter("Connections a connector has lost or could not make.", "connector"),
    "links_attached": _counter("Links asked for and not refused at once.", "scope", "direction"),
    "links_refused": _counter("Links refused.", "scope", _CONDITIONS),
    "links_ended": _counter("Links that have ended.", "scope", _CONDITIONS),
    "messages_refused": _counter("Messages refused.", "scope", _CONDITIONS),
    "cookie_failures": _counter(
        "Response-address cookies and rewritten ids that did not verify.",
        "reason",
        known=(("expired", "wrong MAC", "unknown key", "retired key", "wrong link target", "no cookie"),),
    ),
    "held_back": _counter(
        "Connections that hold too much, by what happens: reading or sending less, closed.",
        "how",
        known=(("reading", "sending", "closed"),),
    ),
    "reloads": _counter("Policy reloads.", "result", known=(("ok", "failed", "error"),)),
    "task_failures": _counter("Background tasks that ended with an error.", "task"),
    "task_restarts": _counter("Essential tasks restarted after an error.", "task"),
    "scrape_errors": _counter("Metrics left out because reading them failed.", "metric"),
}
"""Counters of events that are too rare for an integer of their own (`Metrics.increment`)."""
_OF_MANAGER: Final = "Subscriptions of a manager"

CATALOG: Final[dict[str, MetricDescription]] = {
    # the process
    "build_info": _gauge("1; the versions of the gateway and of Python.", "version", "python"),
    "ready": _gauge("1: the part of /readyz is ready; the part `gateway` is the answer itself.", "part"),
    "loop_lag_seconds": _histogram("How late the event loop runs a timer, four times a second."),
    "policy_info": _gauge("1; the digest of the policy file in force.", "digest"),
    "policy_loaded_timestamp_seconds": _gauge("When the policy in force was loaded, in seconds since 1970."),
    "reload_timestamp_seconds": _gauge("When the last reload ended, in seconds since 1970; 0: there was none."),
    "reload_ok": _gauge("1: the last reload succeeded, or there was none."),
    "certificate_expiry_timestamp_seconds": _gauge(
        "When the first certificate of a file ends, in seconds since 1970; NaN: the file cannot be read.",
        "where",
        "use",
    ),
    "signing_key_expiry_timestamp_seconds": _gauge(
        "Until when a signing key verifies, in seconds since 1970; +Inf: no end is set.",
        "key",
    ),
    # connections and links
    "connections": _gauge("Connections of clients."),
    "listener_connections": _gauge(
        "Connections of clients, by the address that their listener binds.", "scope", "listener"
    ),
    "connector_up": _gauge("1: the container behind the connector is connected.", "scope", "connector"),
    "links": _gauge("Links of clients."),
    "rule_links": _gauge("Links of clients, by the pattern of their address rule.", "scope", "rule", "direction"),
    "links_without_credit": _gauge("Links whose sender may send nothing now.", "scope", "rule", "direction"),
    "links_starved": _gauge("Clients that have had no credit to send for ten seconds.", "scope", "rule"),
    "unsettled": _gauge("Messages without an outcome yet."),
    "socket_bytes": _counter("Bytes on sockets, before TLS.", "scope", "name", "direction"),
    "deliveries": _counter("Messages on links.", "scope", "rule", "direction"),
    "outcomes": _counter("Outcomes of messages, as sent to their senders.", "scope", "rule", "outcome"),
    "dropped": _counter("Settled messages that no receiver could take.", "scope", "rule"),
    "transfer_outcome_seconds": _histogram(
        "From a transfer to its outcome; of each link, one message at a time is timed.",
        "scope",
        "rule",
        "direction",
    ),
    "message_size_bytes": _histogram("Sizes of the messages that clients send.", "scope", "rule"),
    "response_seconds": _histogram(
        "From a request into another scope to its response; one request at a time is timed, twenty a second at most.",
        "scope",
        "target",
    ),
    # Kafka
    "kafka_up": _gauge("1: the cluster answers.", "cluster"),
    "kafka_events": _counter(
        "Transfers into topics by outcome, deliveries from topics, and what went wrong.",
        "cluster",
        "event",
    ),
    "kafka_produce_seconds": _histogram(
        "From handing a record to the Kafka client to Kafka's acknowledgement.", "cluster"
    ),
    "link_lag": _gauge(_LAG.format("link"), "scope", "rule"),
    "group_lag": _gauge(_LAG.format("consumer group"), "scope", "rule"),
    "kafka_ahead_bytes": _gauge(
        "Bytes read ahead of the links; about as much as the cache may hold at most.", "cluster"
    ),
    "kafka_cached_bytes": _gauge("Bytes cached for links that are slightly behind.", "cluster"),
    "kafka_cached_chunks": _gauge("Batches of records in the cache or read ahead.", "cluster"),
    "kafka_client_bytes": _gauge("Limit of the bytes in queues and fetches of the Kafka clients that read.", "cluster"),
    "kafka_client_slow": _gauge(
        "1: this version of confluent-kafka hands records over one by one, about half as fast.",
        "cluster",
    ),
    "kafka_readers": _gauge("Kafka clients that read, each with a thread.", "cluster"),
    "kafka_streams": _gauge(
        "Positions in partitions from which clients read; links at the same position share one.",
        "cluster",
    ),
    "kafka_turns": _gauge("Partitions with more positions than readers, which therefore take turns.", "cluster"),
    # bridges and the journal
    "bridge_up": _gauge(
        "1: this gateway forwards the events of the bridge, and both ends are attached.", "scope", "bridge"
    ),
    "bridge_held": _gauge("Unfinished events of the bridge in this gateway.", "scope", "bridge"),
    "bridge_delay_seconds": _gauge(
        "From an event's timestamp in its log to its acceptance by the target; the last one.",
        "scope",
        "bridge",
    ),
    "bridge_lag": _gauge("Unfinished records of the topic; NaN: unknown.", "scope", "bridge"),
    "bridge_events": _counter(
        "Events of bridges: forwarded (moved), repeated, given up, skipped, of a wrong partition.",
        "scope",
        "bridge",
        "event",
    ),
    "journal_rows": _counter("Rows of the journal by result (docs/journal.md).", "result"),
    "trace_spans": _counter(
        "Spans of traces (`gateway.tracing`): sent, not made or kept for lack of room, not taken by the collector.",
        "result",
    ),
    # subscriptions
    "subscriptions": _gauge(
        f"{_OF_MANAGER}, by the protocol of their sinks and by state.", "manager", "protocol", "state"
    ),
    "subscriptions_suspended": _gauge("Suspended subscriptions of a manager, by reason.", "manager", "reason"),
    "subscription_filters": _gauge(
        "Different filters that are indexed, tried for every event, or true of every event.",
        "manager",
        "kind",
    ),
    "subscription_readers": _gauge("Readers of topics of a manager, by kind.", "manager", "kind"),
    "subscription_sealed": _gauge(f"{_OF_MANAGER} whose secrets a key encrypts.", "manager", "key"),
    "subscription_held_bytes": _gauge("Bytes of events in memory for the sinks of a manager.", "manager"),
    "subscription_oldest_seconds": _gauge(
        "Age of the oldest event that is read and not done with; 0: there is none.",
        "manager",
    ),
    "subscription_events": _counter(
        "Events of subscriptions by what happened to them (docs/subscriptions.md).",
        "manager",
        "protocol",
        "outcome",
    ),
    "subscription_attempts": _counter(
        "Attempts to send events to sinks, by the class of the answer (docs/subscriptions.md).",
        "manager",
        "protocol",
        "class",
    ),
    "subscription_attempt_seconds": _histogram("From sending events to a sink to its answer.", "manager", "protocol"),
    "subscription_delivery_seconds": _histogram(
        "From an event's timestamp in its topic to its acceptance by the sink.",
        "manager",
        "protocol",
    ),
    "subscription_handshakes": _counter("Requests for the consent of HTTP sinks, by result.", "manager", "result"),
    "subscription_egress_refused": _counter(
        "Sinks that the gateway did not connect to, by reason.", "manager", "reason"
    ),
    # memory and filters
    "held_bytes": _gauge("Bytes held for peers, by kind (docs/design.md).", "kind"),
    "held_deliveries": _gauge("Messages held for peers, by kind.", "kind"),
    "held_limit_bytes": _gauge("Limit of the bytes held for all peers."),
    "state_events": _counter(
        "Requests to shared state without an answer, uses that could not be returned, a full memory.",
        "event",
    ),
    "filter_texts_unsearched": _counter("Texts that were too long for the LIKE of a filter, so that it was unknown."),
    "filter_sections_unread": _counter(
        "Sections too long to be searched for a filter, so that the message did not match.",
    ),
    **RARE,
}
"""Without the prefix `scopegate_`, and without the `_total` of counters."""


def known_labels(described: MetricDescription) -> Iterator[Values]:
    """The label values of the series that exist before anything has happened."""
    if len(described.known) == len(described.labels):
        yield from product(*described.known)


def markdown() -> str:
    """`docs/metrics.md`."""
    lines = [*_HEAD, "| metric | type | labels | |", "|---|---|---|---|"]
    for name, each in CATALOG.items():
        full = f"scopegate_{name}{'_total' if each.kind == 'counter' else ''}"
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{full}` | {each.kind} | {labels} | {each.text} |")
    return "\n".join(lines) + "\n"


_HEAD: Final = (
    "# Metrics",
    "",
    "<!-- Generated: scopegate schema --metrics > docs/metrics.md -->",
    "",
    "A gateway shows these metrics at `/metrics` of its HTTP port (`gateway.http`), with those of its process",
    "(`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`, …). A series whose labels",
    "are names of the policy exists, at 0, as soon as the policy is in force. Labels are names of the policy or words",
    "of this project, never what a peer says: an address is counted at its rule, a group at the rule of its address.",
    "Each address rule has about 64 series: a policy of 1,000 rules makes a page of 6 MB. It is read and sent in",
    "pieces, while traffic goes on; one page is made at a time, for all who ask meanwhile.",
    "",
    "[deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml) has alert rules for them, and",
    "[deploy/grafana/scopegate.json](../deploy/grafana/scopegate.json) is a dashboard.",
    "",
)

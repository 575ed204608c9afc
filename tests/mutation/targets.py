"""Which modules are broken, and which tests have to notice: quick ones first."""

from __future__ import annotations

from typing import NamedTuple

P, U, I, X = "tests/protocol/", "tests/unit/", "tests/integration/", "tests/property/"  # noqa: E741


class Target(NamedTuple):
    """A room: patterns of its files, and its tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = (
    Target(
        ("gateway/nodes/*.py",),
        (
            P + "test_outcomes.py", P + "test_transfers.py", P + "test_filters.py", P + "test_bad_messages.py",
            I + "test_boundary.py", I + "test_anonymous.py", I + "test_services.py", I + "test_pairs.py",
            I + "test_reload.py", I + "test_connector_peer.py", I + "test_connector_replies.py", I + "test_pull.py",
            I + "test_relay_scenarios.py", I + "test_stolen_links.py", I + "test_long_cookies.py", I + "test_uses.py",
            I + "test_redirect.py", I + "test_response_rate.py",
        ),
    ),
    Target(
        ("gateway/scope/*.py",),
        (
            U + "test_annotate.py", U + "test_rewrite.py", U + "test_respond.py", U + "test_cookie.py",
            U + "test_carry.py", U + "test_shelf.py", X + "test_scope.py", X + "test_forgery.py",
            I + "test_boundary.py", I + "test_sealed.py",
        ),
    ),
    Target(
        ("bridges/kafka/*.py",),
        (
            U + "test_records.py", U + "test_kafka_reader.py", U + "test_outbox.py", U + "test_fetch.py",
            U + "test_group_links.py", U + "test_event_annotations.py", X + "test_records.py",
            X + "test_record_filter.py", X + "test_shared_reading.py", I + "test_kafka_embedded.py",
            I + "test_info.py", I + "test_event_streams.py", I + "test_groups.py", I + "test_durable.py",
            I + "test_filter_streams.py",
        ),
    ),
    Target(
        ("gateway/filters/*.py", "gateway/filters/*/*.py"),
        (
            U + "test_filter_truth.py", U + "test_sql_filter.py", U + "test_selector_filter.py",
            U + "test_filter_set.py", U + "test_event_stream_filter.py", U + "test_like.py", U + "test_filter_show.py",
            U + "test_filter_columns.py", U + "test_filter_arrow.py", X + "test_filters.py",
            X + "test_filter_reading.py", X + "test_filter_columns.py", P + "test_filters.py",
        ),
    ),
)  # fmt: skip

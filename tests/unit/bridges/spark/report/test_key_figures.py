"""The key figures: an even number, refusals first."""

from __future__ import annotations

from typing import Any

from bridges.spark.report.chapters.builder import ReportTerms
from bridges.spark.report.key_figures import key_figures

JOURNAL: dict[str, list[dict[str, Any]]] = {
    "scopes": [{"action": "send", "messages": 5, "denied": 2}, {"action": "receive", "messages": 7, "denied": 0}],
    "scopes_before": [{"action": "send", "messages": 10, "denied": 2}],
    "outcomes": [{"outcome": "refused: amqp:not-found", "messages": 1}, {"outcome": "accepted", "messages": 4}],
    "latency": [], "lag": [],
}  # fmt: skip
ARCHIVE: dict[str, list[dict[str, Any]]] = {
    "archive_addresses": [{"events": 3, "bytes": 2048, "events_before": 3, "bytes_before": 0}],
    "archive_files": [{"files": 1, "bytes": 10, "lost_offsets": 0}],
}


def test_refusals_first_and_changes() -> None:
    found = list(key_figures({**JOURNAL, **ARCHIVE}, ReportTerms(1, False, True, True, True)))
    assert len(found) == 8
    assert found[0] == ("Links refused", "2", "unchanged; before: 2", True)
    assert found[1] == ("Messages refused", "1", "", True)
    figures = {each.name: each for each in found}
    assert figures["Archived bytes"].note == "new; before: 0 B"
    assert figures["Messages in"].note == "−50.0 %; before: 10"


def test_no_new_events_are_named() -> None:
    figures = {each.name: each for each in key_figures(JOURNAL, ReportTerms(1, False, False, True))}
    assert len(figures) == 6
    assert figures["99 % delivered within"].note == "no new events while links were open"
    assert figures["Messages in"].note == ""


def test_an_archive_without_a_journal() -> None:
    found = list(key_figures(ARCHIVE, ReportTerms(1, False, True, False)))
    assert [each.name for each in found] == ["Archived events", "Archived bytes", "Files", "Lost offsets"]

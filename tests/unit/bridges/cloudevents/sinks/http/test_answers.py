"""What HTTP statuses and `Retry-After` mean (docs/subscriptions.md; RFC 9110, 10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from bridges.cloudevents.delivery.answers import DeliveryOutcome
from bridges.cloudevents.sinks.http.answers import answer_of, seconds_of
from tests.support.project.parts import ROOT

NOW = 1_795_000_000.0
MEANINGS = {
    DeliveryOutcome.DONE: (200, 201, 202, 204, 299),
    DeliveryOutcome.SINK_FAILED: (101, 300, 301, 302, 303, 304, 307, 308, 399),
    DeliveryOutcome.REFUSED: (400, 402, 405, 406, 411, 412, 414, 415, 416, 417, 418, 422, 431, 451, 499),
    DeliveryOutcome.CREDENTIAL: (401, 403, 407),
    DeliveryOutcome.FAILED: (404, 408, 409, 425, 500, 501, 502, 504, 505, 599, 600, 999),
    DeliveryOutcome.GONE: (410,),
    DeliveryOutcome.TOO_LARGE: (413,),
    DeliveryOutcome.WAIT: (429, 503),
}


@pytest.mark.row("CE-3.2.2.1-4")
@pytest.mark.parametrize(("verdict", "status"), [(key, each) for key, some in MEANINGS.items() for each in some])
def test_each_status_has_its_meaning(verdict: DeliveryOutcome, status: int) -> None:
    answer = answer_of(status, None, NOW)
    assert answer.outcome is verdict
    assert answer.reached
    if verdict is not DeliveryOutcome.DONE:
        assert str(status) in answer.reason
        assert answer.status == status


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1000000000", 1e9),
        ("9" * 5000, 1e9),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        (format_datetime(datetime.fromtimestamp(NOW + 60, UTC), usegmt=True), 60.0),
        (format_datetime(datetime.fromtimestamp(NOW - 60, UTC), usegmt=True), 0.0),
        ("Mon, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text, NOW) == seconds


@pytest.mark.row("CE-W-3", part="Retry-After")
def test_a_pause_is_taken_from_answers_that_ask_for_one_only() -> None:
    assert answer_of(429, "30", NOW).retry_after == 30.0
    assert answer_of(503, "30", NOW).retry_after == 30.0
    assert answer_of(500, "30", NOW).retry_after is None
    assert answer_of(204, "30", NOW).retry_after is None


def test_the_documented_meanings_are_those_of_the_table() -> None:
    words = {
        "delivered": {DeliveryOutcome.DONE},
        "refused": {DeliveryOutcome.REFUSED, DeliveryOutcome.TOO_LARGE},
        "credential": {DeliveryOutcome.CREDENTIAL},
        "failed": {DeliveryOutcome.FAILED},
        "gone": {DeliveryOutcome.GONE},
        "wait": {DeliveryOutcome.WAIT},
        "the sink's fault": {DeliveryOutcome.SINK_FAILED},
    }
    page = (ROOT / "docs" / "subscriptions.md").read_text()
    reported: set[int] = set()
    for codes, meaning in re.findall(r"^\| ((?:\d{3}|[0-9, to]+and every)[^|]*) \| ([^|]+) \|", page, re.MULTILINE):
        for first, last in re.findall(r"(\d{3})(?: to (\d{3}))?", codes.replace("4xx", "").replace("5xx", "")):
            for code in range(int(first), int(last or first) + 1):
                assert answer_of(code, None, NOW).outcome in words[meaning], code
                reported.add(code)
    assert {200, 299, 301, 101, 401, 410, 413, 429, 503, 422, 502} <= reported

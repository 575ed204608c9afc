"""The metrics and journal rows of deliveries that come and go."""

from __future__ import annotations

import gc
from typing import Any, Final

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.dispatch.journal_rows import JournalRows, row_key
from bridges.cloudevents.dispatch.observer import DeliveryObserver
from tests.support.cloudevents.objects import HTTP, parsed

STREAMS: Final = ("events/orders",)
NOBODY: Final[Any] = {}


def counted(matched: int) -> DeliveryCounts:
    found = DeliveryCounts()
    found.matched = matched
    return found


def test_ended_deliveries_need_no_memory_also_if_nobody_scrapes() -> None:
    nothing: Any = None
    observer, subscription = DeliveryObserver(NOBODY, NOBODY, nothing, nothing), parsed(HTTP)
    for _ in range(5000):
        observer.track(subscription, STREAMS, counted(1))
    gc.collect()
    assert sum(isinstance(each, DeliveryCounts) for each in gc.get_objects()) < 2500
    assert {name: number for _, name, number in observer.events()}["matched"] == 5000


def test_rows_have_what_was_counted_since_the_last_ones() -> None:
    rows, counts, ended = JournalRows(), DeliveryCounts(), DeliveryCounts()
    one = row_key(parsed(HTTP), STREAMS)
    rows.track(one, counts)
    rows.track(one, ended)
    counts.matched, ended.matched, ended.delivered = 3, 2, 1
    (row,) = rows.rows({id(counts)})
    assert row == {
        "user": "billing", "protocol": "HTTP", "sink": "https://hooks.partner.example:443",
        "streams": ["events/orders"], "subscriptions": 1, "events": {"matched": 5, "delivered": 1},
    }  # fmt: skip
    assert list(rows.rows({id(counts)})) == []
    counts.matched += 1
    other = row_key(parsed({**HTTP, "sink": "https://other.partner.example/secret-path"}), STREAMS)
    rows.track(other, counts)  # an update has changed the sink
    counts.matched += 1
    found = {row["sink"]: row["events"] for row in rows.rows({id(counts)}) if row is not None}
    assert found == {one.sink: {"matched": 1}, other.sink: {"matched": 1}}

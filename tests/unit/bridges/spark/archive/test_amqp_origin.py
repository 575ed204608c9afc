"""The options of the data source that an archive does not take: it would lack rows, or columns of its files."""

from __future__ import annotations

import pytest

from bridges.spark.archive.archiving.amqp_origin import AmqpOrigin
from bridges.spark.errors import PipelineError

NODE = {"url": "amqp://127.0.0.1:1", "address": "events/orders"}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("columns", "offset,body", "an archive has all columns: leave the option columns out"),
        ("failOnDataLoss", "false", "use --no-fail-on-data-loss, which records the gap, instead of the option"),
        ("endingOffsets", '{"0": 5}', "an archive reads to the end: leave endingOffsets and endingTimestamp out"),
        ("endingTimestamp", "2026-11-21T08:00:00Z", "an archive reads to the end: "),
    ],
)
def test_what_an_archive_does_not_take(option: str, value: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        AmqpOrigin({**NODE, option: value}, "orders")


@pytest.mark.parametrize("option", [{}, {"failOnDataLoss": "true"}, {"filter": "a.color = 'red'"}, {"maxTasks": "2"}])
def test_what_an_archive_takes(option: dict[str, str]) -> None:
    AmqpOrigin({**NODE, **option}, "orders")

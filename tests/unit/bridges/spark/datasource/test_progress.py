"""What a query left of its stream, from the offsets that Spark reports."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.listener import SourceProgress

from bridges.spark.datasource.progress import offsets_behind


def source(end: str | None, latest: str | None) -> SourceProgress:
    empty: dict[str, str] = {}
    return SourceProgress("scopegate", "null", end, latest, 0, 0.0, 0.0, empty)


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ('{"0": 5, "log": "a"}', '{"0": 7, "1": 3, "log": "a"}', {0: 2, 1: 3}),
        ('{"0": 5, "log": "a", "first": {"0": 1}}', '{"0": 5, "log": "a"}', {0: 0}),
        ('{"0": 5}', '{"0": 4}', {0: 0}),
        ('{"0": 5, "log": "a"}', '{"0": 4, "log": "b"}', {0: 4}),
        ("null", '{"0": 4}', {}),
        ('{"0": 4}', None, {}),
    ],
)
def test_what_is_left(end: str | None, latest: str | None, behind: dict[int, int]) -> None:
    assert offsets_behind(source(end, latest)) == behind

"""The option `columns` of the data source: the columns that it names, with the values that they have without it."""

from __future__ import annotations

import pytest

from bridges.kafka.records.mapping import RecordReader
from bridges.spark.columns import schema
from bridges.spark.datasource import read
from bridges.spark.datasource.options import read_options
from bridges.spark.datasource.plan import OffsetRange
from bridges.spark.errors import PipelineError

PEER = {"url": "amqp://h", "address": "a"}


def messages(count: int) -> list[bytes]:
    """Events with and without keys and headers, of several shapes."""
    reader = RecordReader()
    return [
        reader.encode(b"k%d" % n if n % 3 else None, b"v%d" % n, [("h", b"x")] if n % 2 else None, 0, n, 1, 1000 + n)
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [3, 60])
@pytest.mark.parametrize("names", ["offset", "key,partition", " body , timestamp", "header,not_shown,bare_message"])
def test_columns_have_the_values_that_they_have_among_all(names: str, count: int) -> None:
    wanted = OffsetRange(0, 1, count)
    whole, end = read._batch(read_options(PEER), wanted, messages(count))
    chosen = read_options({**PEER, "columns": names})
    found = read._batch(chosen, wanted, messages(count))
    assert list(chosen.columns) == [name for name in schema.COLUMNS if name in names.replace(" ", "").split(",")]
    assert found == (whole.select(list(chosen.columns)), end)


@pytest.mark.parametrize(
    ("names", "said"), [("offest", "there is no column offest, did you mean offset?"), (" , ", "has to be a list")]
)
def test_columns_that_are_none_are_refused(names: str, said: str) -> None:
    with pytest.raises(PipelineError, match="option columns") as caught:
        read_options({**PEER, "columns": names})
    assert said in str(caught.value)

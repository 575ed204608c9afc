"""A worker for whom the folder of a stream's progress is another one sends nothing (found as F1)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import types as T

from bridges.spark.archive.contents.token import Token
from bridges.spark.datasource.options import write_options
from bridges.spark.datasource.sink import BatchSink, StreamSink
from bridges.spark.errors import PipelineError

SCHEMA = T.StructType([T.StructField("body", T.BinaryType())])


def options(folder: Path) -> dict[str, str]:
    return {"url": "amqp://127.0.0.1:1", "address": "events/orders", "progressLocation": str(folder)}


def sink(folder: Path) -> StreamSink:
    """As a task gets it."""
    made = StreamSink(write_options(options(folder)), SCHEMA, overwrite=False)
    found = pickle.loads(pickle.dumps(made._token))
    made._token = found
    return made


def test_a_task_that_sees_the_folder_of_its_driver_writes(tmp_path: Path) -> None:
    folder = tmp_path / "progress"
    first, second = sink(folder), sink(folder)  # a query that is begun again, or another one
    for each in (first, second):
        each.write(iter(()))
    assert [each.name for each in folder.iterdir()] == [".scopegate-progress"]


@pytest.mark.parametrize("other", ["none", "empty", "of another driver"])
def test_a_task_that_has_another_folder_there_sends_nothing(tmp_path: Path, other: str) -> None:
    folder = tmp_path / "progress"
    made = sink(folder)
    folder.rename(tmp_path / "of the driver")
    if other != "none":
        folder.mkdir()
    if other == "of another driver":
        sink(folder)
    before = sorted(folder.iterdir()) if folder.exists() else None
    with pytest.raises(PipelineError, match=f"cannot reach the progress: .*{folder} is another folder or none"):
        made.write(iter(()))
    assert (sorted(folder.iterdir()) if folder.exists() else None) == before


def test_a_batch_needs_no_folder(tmp_path: Path) -> None:
    BatchSink(write_options(options(tmp_path / "progress")), SCHEMA, overwrite=False).write(iter(()))
    assert not list(tmp_path.iterdir())


def test_all_who_ask_at_once_find_the_same_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: Token.shared(tmp_path / "token"), range(64)))
    assert len(set(found)) == 1
    assert found[0].seen()
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"the progress in .* cannot be stored: "):
        sink(tmp_path / "file" / "progress")

"""A streaming query in a process to be killed: `python -m tests.support.spark.stream_job URL ADDRESS FOLDER`.

Reads to the end in micro-batches of 20 events, slowly, into Parquet under FOLDER.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from bridges.spark.datasource.source import ScopeGateDataSource
from bridges.spark.session import open_session
from tests.support.spark.spark_classes import QUICK


def slow(batch: Any) -> Any:
    """A reader that leaves time to be killed."""
    for each in batch:
        time.sleep(0.05)
        yield each


def main(url: str, address: str, folder: str) -> None:
    """Read everything once."""
    conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": QUICK}
    spark = open_session("stream", master="local[2]", conf=conf)
    spark.dataSource.register(ScopeGateDataSource)
    source = spark.readStream.format("scopegate").options(url=url, address=address, maxEventsPerTrigger="20")
    frame = source.load()
    frame = frame.mapInArrow(slow, frame.schema)
    place = Path(folder)
    sink = frame.writeStream.format("parquet").option("path", str(place / "out"))
    query = sink.option("checkpointLocation", str(place / "check")).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

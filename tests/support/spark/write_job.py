"""Writers in a process to be killed: `… -m tests.support.spark.write_job URL FROM STREAMED BATCHED FOLDER`.

A streaming query writes what it reads in micro-batches of 20 events; while it does, a batch writes the same elsewhere.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from bridges.spark.datasource.source import ScopeGateDataSource
from bridges.spark.session import open_session
from tests.support.spark.spark_classes import QUICK

CONF = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
}


def slow(batches: Any) -> Any:
    """Ten rows at a time, and time between them to be killed in."""
    for batch in batches:
        for first in range(0, batch.num_rows, 10):
            time.sleep(0.1)
            yield batch.slice(first, 10)


def main(url: str, first: str, streamed: str, batched: str, folder: str) -> None:
    """Write everything once each way."""
    spark = open_session("writer", master="local[4]", conf=CONF)
    spark.dataSource.register(ScopeGateDataSource)
    events = spark.readStream.format("scopegate").options(url=url, address=first, maxEventsPerTrigger="20").load()
    sink = events.mapInArrow(slow, events.schema).writeStream.format("scopegate").options(url=url, address=streamed)
    query = sink.option("checkpointLocation", folder).trigger(availableNow=True).start()
    while not query.lastProgress and query.isActive:
        time.sleep(0.05)
    frame = spark.read.format("scopegate").options(url=url, address=first).load()
    frame = frame.mapInArrow(slow, frame.schema)
    frame.write.format("scopegate").options(url=url, address=batched).mode("append").save()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

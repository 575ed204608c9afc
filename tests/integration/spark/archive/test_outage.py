"""Kafka goes away while a job archives, and comes back: the job waits, says so once, and loses nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bridges.spark.archive.archiving.job import LogBounds, run
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.monitoring.outages import Outages
from bridges.spark.archive.monitoring.progress import ArchiveProgress, ProgressMeter
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 240.0


class Seen:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.rows = 0
        self.idles = 0
        self.lines: list[str] = []

    def committed(self, progress: ArchiveProgress) -> None:
        self.rows += progress.commit.rows

    def idle(self) -> None:
        self.idles += 1

    def outage(self, text: str) -> None:
        self.lines.append(text)


def test_an_outage_of_kafka_is_waited_out(spark: SparkSession, own_kafka: KafkaBroker, tmp_path: Path) -> None:
    topic, archive, seen = own_kafka.create_topic(partitions=2), Archive(tmp_path / "archive"), Seen()
    produce(own_kafka, topic, 100, 2)
    origin = KafkaOrigin({"bootstrap.servers": own_kafka.bootstrap}, {topic: "orders"})
    stop, ended = threading.Event(), list[object]()
    outages = Outages(seen.outage, clock=time.monotonic, sleep=lambda _: stop.wait(0.05), random=lambda: 0.5)

    def job() -> None:
        try:
            ended.append(run(
                spark, archive, origin, LogBounds(), observer=seen, meter=ProgressMeter(time.monotonic, time.time),
                outages=outages, over=lambda: stop.wait(0.05), stopped=stop.is_set,
            ))  # fmt: skip
        except BaseException as error:
            ended.append(error)
            raise

    thread = threading.Thread(target=job)
    thread.start()
    try:
        wait_until(lambda: seen.rows == 100 or ended, "the first commit", SLOW)
        own_kafka.kill()
        wait_until(lambda: seen.lines or ended, "the outage", SLOW)
        idles = seen.idles
        own_kafka.start()
        wait_until(lambda: len(seen.lines) == 2 or ended, "the end of the outage", SLOW)
        produce(own_kafka, topic, 100, 2, first=100)
        wait_until(lambda: (seen.rows == 200 and seen.idles > idles) or ended, "the second commit", SLOW)
    finally:
        stop.set()
        thread.join(SLOW)
    assert ended == [True]
    began, over = seen.lines
    assert began.startswith(f"Kafka at {own_kafka.bootstrap} does not answer")
    assert began.endswith("; waiting for it to pass")
    assert over.startswith("the job goes on after ")
    assert (verify(archive).rows, verify(archive).problems) == (200, ())

"""The AMQP data source against Spark's own Kafka source: the same topic of four partitions in one run.

Both read every row into Spark's `noop` sink with as many tasks as there are partitions, and the same columns: those of
Spark's source with headers, which the data source is asked for with its option `columns`. The cost of a row is counted
per process, so that the figure shows the limiting one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.running import Watch, cpu_seconds, module
from tests.support.project.parts import folder
from tests.support.servers.kafka import FastKafka, KafkaBroker

PARTITIONS = 4
SIZE = 100
COLUMNS = "partition,offset,timestamp,key,application_properties,body"
"""What Spark's source has: headers are application properties, and the topic is the address."""
_FORMS = (("source_amqp", "plain"), ("source_amqp_sealed", "sealed"))


def source(effort: Effort) -> Iterator[Figure]:
    """Rows a second of both, the topic written by a Kafka application (six headers) and by the gateway."""
    broker, records = FastKafka(), effort.spark
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway, closing(Spark()) as spark:
            for name, form in _FORMS:
                topic = broker.create_topic(partitions=PARTITIONS)
                module("kafka.fill", broker.bootstrap, topic, str(records), str(SIZE), "1000", form, seconds=400.0)
                yield _figure(name, spark, spark.amqp(gateway, topic), spark.kafka(broker, topic), gateway, effort)
    finally:
        broker.stop()


def _figure(name: str, spark: Spark, ours: Any, theirs: Any, gateway: BenchGateway, effort: Effort) -> Figure:
    records = effort.spark
    for each in (ours, theirs):
        assert each.count() == records, f"{each.count()} rows of {records}"  # and everything is compiled
    value, alone = interleaved(
        lambda: spark.read(ours, records, gateway.pid), lambda: spark.read(theirs, records), effort.long_rounds
    )
    costs = ", ".join(
        f"{value[key]:.1f} us {key.removesuffix('_us')}" for key in ("gateway_us", "python_us", "java_us")
    )
    details = {**value, "kafka": alone}
    what = f"Spark's Kafka source; a row over AMQP takes {costs}"
    return Figure(name, value["rate"], "rows/s", alone["rate"], what, 0.7, details=details)


class Spark:
    """A session on all cores, and what its processes cost."""

    def __init__(self) -> None:
        from bridges.spark.datasource.source import ScopeGateDataSource
        from bridges.spark.session import open_session

        jars = sorted(folder("spark-kafka").glob("*.jar"))
        self._session = open_session("bench", jars=jars, conf={"spark.driver.memory": "2g"})
        self._session.dataSource.register(ScopeGateDataSource)
        self._java = int(self._session.sparkContext._gateway.proc.pid)  # type: ignore[attr-defined]

    def amqp(self, gateway: BenchGateway, topic: str) -> Any:
        """The topic through the gateway."""
        url = f"amqp://127.0.0.1:{gateway.edge[1]}"
        options = {"url": url, "address": f"events/{topic}", "columns": COLUMNS}
        return self._session.read.format("scopegate").options(**options).load()

    def kafka(self, broker: KafkaBroker, topic: str) -> Any:
        """The topic through Spark's own source, headers included."""
        reader = self._session.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        return reader.options(subscribe=topic, includeHeaders="true", startingOffsets="earliest").load()

    def read(self, frame: Any, records: int, gateway: int | None = None) -> Sample:
        """Every column of every row once."""
        meters: dict[str, Callable[[], float]] = {"java_us": self._java_seconds, "python_us": self._python_seconds}
        if gateway is not None:
            meters["gateway_us"] = lambda: cpu_seconds(gateway)
        before = {name: meter() for name, meter in meters.items()}
        watch, started = Watch(), time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        seconds, others = time.perf_counter() - started, watch.others_cores()
        used = {name: meter() - before[name] for name, meter in meters.items()}
        spark = used["java_us"] + used["python_us"]  # no children of the bench that it knows of
        costs = {name: each / records * 1e6 for name, each in used.items()}
        return {"rate": records / seconds, "others_cores": max(0.0, others - spark / seconds), **costs}

    def _java_seconds(self) -> float:
        return cpu_seconds(self._java)

    def _python_seconds(self) -> float:
        return sum(cpu_seconds(pid) for pid in below(self._java))

    def close(self) -> None:
        """Ends the session; Java goes with this process."""
        self._session.stop()


def below(pid: int) -> Iterator[int]:
    """The processes that this one started, and theirs."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            yield child
            yield from below(child)

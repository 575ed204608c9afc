"""Kafka's classes, loaded and verified once for all brokers of the suite (spark/spark_classes.py says how).

With them a broker takes 2.0 s of processor time to its first topic, formatting included, without them 3.1 s. Beside
them is the folder of an empty broker, which others copy. The program is the broker whose classes are archived:
`python -m tests.support.servers.kafka_classes FOLDER`, run by tests/support/project/parts.py.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from confluent_kafka import Consumer

from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import FORMATTED, SHORT, KafkaBroker
from tests.support.spark.spark_classes import NAME


class Recorded(KafkaBroker):
    """A broker that writes its classes down when it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.options = *SHORT, f"-XX:ArchiveClassesAtExit={folder / NAME}", "-Xlog:cds*=off"
        self._formatted = folder / FORMATTED.name
        super().__init__()

    def _format(self) -> None:
        self._run_format_tool()
        shutil.copytree(self.data, self._formatted)


def use(broker: KafkaBroker) -> None:
    """Do once what tests do often: a log, what is in it, a group and its position."""
    topic = broker.create_topic(partitions=2)
    with broker.writing() as write:
        for number in range(100):
            write(topic, b"value", b"key", number % 2)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "classes", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert consumer.poll(PATIENCE) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    recorded = Recorded(Path(sys.argv[1]))
    use(recorded)
    recorded.stop()

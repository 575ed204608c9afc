"""A real Kafka broker: one node from Maven jars, broker and controller in one process, on loopback."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shlex
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.gateway.process import PATIENCE, Process, Server, fresh_folder, ports, run_tool, wait_until
from tests.support.project.commands import program
from tests.support.project.parts import PARTS, folder
from tests.support.spark.spark_classes import sharing

FORMATTED = PARTS / "kafka-classes" / "formatted"
"""The data of a broker that has no users and was never started; kafka_classes.py makes it."""
HEAP = "-Xms512m", "-Xmx512m"
SHORT = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"
"""Options of a Java that does not live long enough to earn what compiling well and collecting in parallel cost."""
SHARED = *SHORT, *shlex.split(sharing(PARTS / "kafka-classes"))
"""The same, with the classes that kafka_classes.py has archived beside it, if they fit this Java and these jars."""
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
# A broker that is stopped for longer loses its partitions for a moment, and what ends transactions then (decision 108);
# one that was killed comes back only after it.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
# Topics with times of 1970 in them keep their records; a test that wants retention says so in its topic.
log.retention.ms=-1
"""

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""The setting of a topic that takes records of the future."""


def java(main: str, *arguments: str, options: Sequence[str] = SHARED) -> list[str]:
    """Return the command that runs a main class of Kafka's jars."""
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [program("java"), *HEAP, *options, logging, "-cp", f"{folder('kafka')}/*", main, *arguments]


def escaped(properties: str) -> str:
    """Properties as Java reads them, in Latin-1: what else a path has is escaped, as in JSON."""
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], properties)


def random_id() -> str:
    """Return an id of Kafka: a random uuid in base64; the tool refuses a leading dash."""
    return "S" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]


@contextmanager
def writing(bootstrap: str, **settings: Any) -> Iterator[Callable[..., None]]:
    """A function that produces like `Producer.produce`; at the end every record is in Kafka, or the test fails.

    A flush alone counts records that were given up as done.
    """
    client = new_producer(bootstrap, **settings)
    errors: Counter[str] = Counter()

    def produce(*about: Any, **more: Any) -> None:
        client.produce(*about, **more, on_delivery=lambda error, _: error and errors.update([str(error)]))
        client.poll(0)

    yield produce
    assert client.flush(PATIENCE) == 0, "records that Kafka did not confirm"
    assert not errors, errors


def new_producer(bootstrap: str, **settings: Any) -> Producer:
    """A producer that keeps the order of each partition when it has to send again."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, **settings})


def led(admin: AdminClient, partitions: Iterable[TopicPartition]) -> bool:
    """Tell whether the leaders of these partitions answer.

    A broker names itself as the leader before it is one, and refuses records meanwhile: clients try again, those that
    are not idempotent in another order.
    """
    ends = {partition: OffsetSpec.latest() for partition in partitions}
    try:
        return all(answer.result(PATIENCE) for answer in admin.list_offsets(ends, request_timeout=PATIENCE).values())
    except KafkaException:  # a client that has once heard of fewer partitions asks for no others until it hears of them
        for topic in {partition.topic for partition in ends}:
            admin.list_topics(topic, timeout=PATIENCE)
        return False


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """The partitions of a topic."""
    return [TopicPartition(topic, number) for number in range(count)]


class KafkaBroker(Server):
    """A broker on fixed ports, so that it comes back at the same address after `kill` and `restart`."""

    options: Sequence[str] = SHARED
    """Of its Java."""
    _names = itertools.count(1)

    def __init__(self) -> None:
        self.port, controller = ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._folder = fresh_folder("kafka")
        self._properties = self._folder / "server.properties"
        self.data = self._folder / "data"
        text = PROPERTIES.format(port=self.port, controller=controller, data=self.data)
        self._properties.write_text(escaped(self._configured(text)))
        self._format()
        self.start()

    def _configured(self, text: str) -> str:
        """The properties of this kind of broker."""
        return text

    def _users(self) -> Sequence[str]:
        """Options that give the new broker its users."""
        return ()

    def _format(self) -> None:
        """Make the folder of its data: a copy of an empty one with another id, for the tool starts a Java."""
        if self._users() or not FORMATTED.exists():
            self._run_format_tool()
            return
        shutil.copytree(FORMATTED, self.data)
        about = self.data / "meta.properties"
        about.write_text(re.sub(r"cluster\.id=.*", f"cluster.id={random_id()}", about.read_text()))

    def _run_format_tool(self) -> None:
        arguments = ("format", "--cluster-id", random_id(), "-c", str(self._properties), *self._users())
        run_tool("kafka-format", java("kafka.tools.StorageTool", *arguments))

    @classmethod
    def at(cls, port: int, data: Path) -> KafkaBroker:
        """Return the one that runs at a port, in the hands of another process: it can neither be ended nor started."""
        broker = cls.__new__(cls)
        broker.port, broker.bootstrap, broker.data = port, f"127.0.0.1:{port}", data
        return broker

    def start(self) -> None:
        """Start the broker and wait until it answers a metadata request."""
        self.process = Process("kafka", java("kafka.Kafka", str(self._properties), options=self.options))
        self.process.wait_ready(self.answers, "an answer of Kafka")

    def answers(self) -> bool:
        """Tell whether the broker lists itself."""
        try:
            return bool(self.metadata(1.0).brokers)
        except KafkaException:
            return False

    def admin(self) -> AdminClient:
        """Return a new admin client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self, seconds: float = PATIENCE) -> ClusterMetadata:
        """Return brokers and topics as the broker tells them."""
        return self.admin().list_topics(timeout=seconds)

    def create_topic(
        self, name: str | None = None, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic (with a new name unless one is given), wait for its leaders, return its name."""
        topic = name or f"topic-{next(self._names)}-{uuid.uuid4().hex[:10]}"
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self.admin()
        admin.create_topics([new])[topic].result(PATIENCE)
        wait_until(lambda: led(admin, partitions_of(topic, partitions)), f"{partitions} leaders of {topic}")
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, and wait for their leaders.

        The controller answers before brokers tell of them, and clients give up a record for a partition that they
        hear nothing of.
        """
        admin = self.admin()  # referenced until the end: an answer ends with its client
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE)
        wait_until(lambda: led(admin, partitions_of(topic, partitions)), f"{partitions} leaders of {topic}")

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic, and create another one of the same name."""
        self.delete(topic)
        self.create_topic(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until clients hear nothing of it any more."""
        admin = self.admin()  # referenced until the end: an answer ends with its client
        admin.delete_topics([topic])[topic].result(PATIENCE)
        wait_until(lambda: topic not in self.metadata().topics, f"{topic} to be gone")

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        admin, end = self.admin(), TopicPartition(topic, partition, offset)
        admin.delete_records([end])[TopicPartition(topic, partition)].result(PATIENCE)

    def writing(self, **settings: Any) -> AbstractContextManager[Callable[..., None]]:
        """As the function `writing`, for this broker."""
        return writing(self.bootstrap, **settings)

    def configure(self, topic: str, name: str, value: str) -> None:
        """Change a setting of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE)
        self.take_changes()

    def take_changes(self) -> None:
        """Wait until the broker does what its controller has answered: settings and ACLs reach it a little later.

        It takes changes in their order. From several at once it may make leaders first, so the second topic tells.
        """
        for _ in range(2):
            self.create_topic()


class FastKafka(KafkaBroker):
    """A broker to measure with: its start takes longer, and then it does all that it can."""

    options = ()

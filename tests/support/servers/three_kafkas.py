"""Three Kafka brokers from the same jars: each can be killed, started again, or given a full disk."""

from __future__ import annotations

import base64
import os
import resource
import uuid

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.gateway.process import PATIENCE, Process, Server, answers, fresh_folder, ports, run_tool, wait_until
from tests.support.servers.kafka import PROPERTIES, escaped, java, led, partitions_of

_REPLICATED = """
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
min.insync.replicas=2
default.replication.factor=3
controlled.shutdown.enable=true
replica.lag.time.max.ms=3000
auto.leader.rebalance.enable=false
log.index.size.max.bytes=65536
broker.session.timeout.ms=2000
"""

_ALONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
"""What a broker that is alone has in another way."""


class Broker(Server):
    """One of them, at ports of its own."""

    def __init__(self, number: int, port: int, controller: int, voters: str, cluster: str) -> None:
        self.number, self.port = number, port
        folder = fresh_folder(f"kafka-{number}")
        self._properties = folder / "server.properties"
        text = PROPERTIES.format(port=port, controller=controller, data=folder / "data") + _REPLICATED
        text = text.replace("node.id=1\n", f"node.id={number}\n")
        for name in _ALONE:
            text = text.replace(f"{name}=1\n", "")
        self._properties.write_text(escaped(text.replace(f"voters=1@127.0.0.1:{controller}", f"voters={voters}")))
        arguments = ("format", "--cluster-id", cluster, "-c", str(self._properties))
        run_tool("kafka-format", java("kafka.tools.StorageTool", *arguments))

    def begin(self) -> None:
        """Start without waiting: it takes two of them to serve."""
        command = java("kafka.Kafka", str(self._properties))
        small = ["-Xms192m" if word == "-Xms512m" else "-Xmx320m" if word == "-Xmx512m" else word for word in command]
        self.process = Process(f"kafka-{self.number}", small)

    def start(self) -> None:
        """Start and wait until it listens."""
        self.begin()
        assert self.process is not None
        self.process.wait_ready(lambda: answers(self.port), f"broker {self.number} to listen")

    def knows(self, topic: str) -> bool:
        """Tell whether it names a leader of a topic; a new client has asked no other broker before."""
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        found = client.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        return bool(found) and found[0].leader >= 0

    def fill_disk(self, size: int) -> None:
        """From now on no file of it may grow beyond `size` bytes, as on a full disk; one that ended of it stays so."""
        assert self.process is not None
        if not self.process.alive:
            return
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, size))


class KafkaBrokers(Server):
    """The cluster of three; every topic is on all of them."""

    def __init__(self) -> None:
        listeners, controllers = ports(3), ports(3)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        cluster = "S" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]
        self.brokers = {
            number: Broker(number, port, controller, voters, cluster)
            for number, (port, controller) in enumerate(zip(listeners, controllers, strict=True), 1)
        }
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in listeners)
        self._admin: AdminClient | None = None
        self.start()

    def start(self) -> None:
        """Start those that do not run, and wait until all are there."""
        for broker in self.brokers.values():
            if broker.process is None or not broker.process.alive:
                broker.begin()
        for broker in self.brokers.values():
            assert broker.process is not None
            broker.process.wait_ready(lambda port=broker.port: answers(port), f"broker {broker.number}")  # type: ignore[misc]
        wait_until(lambda: len(self.admin.list_topics(timeout=PATIENCE).brokers) == 3, "three brokers")

    def stop(self) -> None:
        """End all of them."""
        for broker in self.brokers.values():
            broker.kill()

    @property
    def admin(self) -> AdminClient:
        """An admin client."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create_topic(self) -> str:
        """A topic of one partition on all three."""
        topic = f"replicated-{uuid.uuid4().hex[:6]}"
        self.admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3)])[topic].result(PATIENCE)
        self._wait_for(topic)
        return topic

    def create_topic_on(self, number: int) -> str:
        """A topic of one partition on one broker alone: without that one it has no leader."""
        topic = f"alone-{uuid.uuid4().hex[:6]}"
        new = NewTopic(topic, num_partitions=1, replica_assignment=[[number]], config={"min.insync.replicas": "1"})
        self.admin.create_topics([new])[topic].result(PATIENCE)
        self._wait_for(topic)
        return topic

    def _wait_for(self, topic: str) -> None:
        """Wait until its leader answers, and every broker knows it: a client may ask any of them."""
        wait_until(lambda: led(self.admin, partitions_of(topic, 1)), f"a leader of {topic}")
        wait_until(lambda: all(broker.knows(topic) for broker in self.brokers.values()), f"all to know {topic}")

    def leader(self, topic: str) -> int:
        """Who leads its partition; -1: nobody."""
        found = self.admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions.get(0)
        return found.leader if found else -1

    def in_sync(self, topic: str) -> int:
        """How many have all of it; three of a topic that is not there yet."""
        found = self.admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions.get(0)
        return len(found.isrs) if found else 3

    def give_back(self, topic: str) -> None:
        """Make the first replica the leader again, with all brokers up."""
        self.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(PATIENCE)

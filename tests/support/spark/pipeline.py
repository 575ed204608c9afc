"""What tests of the data pipeline share: records of every kind, what a Kafka consumer sees, rows of an archive."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import pyarrow.parquet as pq
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from bridges.kafka.records.mapping import RecordReader
from gateway.amqp.sasl.user_file import make_entry, put_user
from gateway.cli.main import main
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, Process, fresh_folder, ports, wait_until
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.spark_classes import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Headers = tuple[tuple[str, bytes | None], ...]


KILLS = int(os.environ.get("SCOPEGATE_KILLS", "1"))
"""How often a driver is killed, in each phase where phases can be told; issue 7 wants ten, which take minutes."""
SMALL = "--conf", "spark.driver.memory=512m", "--conf", f"spark.driver.extraJavaOptions={QUICK}"


class Record(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: tuple[int, int]
    """The kind as the client numbers it, and milliseconds."""


ODD: Sequence[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = (
    (None, b"plain", []),
    (b"key", b"keyed", [("color", b"red")]),
    (b"\xff\x00", b"\x00\xff" * 50, [("n", None), ("twice", b"1"), ("twice", b"2"), ("", b"")]),
    (b"gone", None, [("color", b"red")]),
    (None, b"", [("x-opt-amqp-body", b"sections")]),
    (None, b"\x00\x53\x77\xa1\x03abc", [("amqp.bare", b"\x01nonsense")]),
    (b"", b"empty key", [("umlaut-\u00fc", "\u00e4".encode())]),
)
"""Records that no gateway wrote: nulls, doubles, binaries, and what looks like ours and is not."""


def produce(
    broker: KafkaBroker, topic: str, count: int, partitions: int, *, first: int = 0, red: int = 10, apart: int = 1
) -> None:
    """Write odd and plain records round robin; one in `red` of the plain ones has the header color=red.

    Their times are `apart` milliseconds from each other.
    """
    with broker.writing() as write:
        for number in range(first, first + count):
            if number < len(ODD):
                key, value, headers = ODD[number]
            else:
                color = b"red" if number % red == 0 else b"blue"
                key, value, headers = b"k%d" % (number % 7), b"v%d" % number, [("color", color)]
            time = 10_000 + number * apart
            write(topic, value, key, number % partitions, headers=headers or None, timestamp=time)


def consumed(broker: KafkaBroker, topic: str, *, committed: bool = True) -> list[Record]:
    """Everything committed in a topic, or everything that was ever written, by partition and offset."""
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "group.id": "look", "enable.auto.commit": False}
    settings |= {"fetch.wait.max.ms": 10}  # the broker waits half a second before it says that there is no more
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": level})
    partitions = broker.metadata().topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(60)  # a machine that is busy keeps Kafka waiting
        assert message is not None, "no answer of Kafka"
        if message.error():
            ended.add(message.partition())
            continue
        headers = tuple(message.headers() or ())
        place = message.partition(), message.offset()
        found.append(Record(*place, message.key(), message.value(), headers, message.timestamp()))
    consumer.close()
    return sorted(found, key=lambda record: record[:2])


class Watermarks:
    """Where a topic ends for those who read everything, and for readers of committed records."""

    def __init__(self, broker: KafkaBroker, topic: str, partitions: int) -> None:
        own = {"bootstrap.servers": broker.bootstrap, "group.id": "watermarks", "log_level": 0}
        self._all = Consumer({**own, "isolation.level": "read_uncommitted"})
        self._committed = Consumer({**own, "isolation.level": "read_committed"})
        self._places = [TopicPartition(topic, number) for number in range(partitions)]

    def open(self) -> bool:
        """Whether records of a transaction that has not ended are there."""
        return any(self._end(self._all, place) > self._end(self._committed, place) for place in self._places)

    def total(self) -> int:
        """How many records there are, in a topic that nothing was deleted from."""
        return sum(self._end(self._all, place) for place in self._places)

    def _end(self, consumer: Consumer, place: TopicPartition) -> int:
        _, high = consumer.get_watermark_offsets(place, timeout=PATIENCE)
        return int(high)

    def close(self) -> None:
        self._all.close()
        self._committed.close()


def settled(broker: KafkaBroker, topic: str) -> None:
    """Wait until Kafka has said the end of each transaction in each partition: it answers a commit before it has."""
    marks = Watermarks(broker, topic, len(broker.metadata().topics[topic].partitions))
    wait_until(lambda: not marks.open(), "the ends of transactions")
    marks.close()


def archived(rows: Sequence[Any]) -> list[Record]:
    """The records that rows of an archive stand for."""
    found = []
    for row in rows:
        record = row.record
        value = row.body if record.value_in_body else record.value
        headers = tuple((each.key, optional(each.value)) for each in record.headers or ())
        stamp = record.timestamp_type, round(row.timestamp.timestamp() * 1000)
        found.append(Record(row.partition, row.offset, optional(row.key), optional(value), headers, stamp))
    return sorted(found, key=lambda each: each[:2])


def optional(value: Any) -> bytes | None:
    """Spark's bytearray as bytes."""
    return None if value is None else bytes(value)


def command(*arguments: object) -> list[str]:
    """The real command `scopegate pipeline …`."""
    return [sys.executable, "-m", "gateway.cli.main", "pipeline", *map(str, arguments)]


def pipeline(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the real command to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What the command does, in this process: for those that end before Spark starts, or within `lent`."""
    done = CliRunner().invoke(main, ["pipeline", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@contextmanager
def lent(spark: SparkSession) -> Iterator[None]:
    """While this lasts, commands in this process use a session that is there: they neither start nor stop one."""
    conf: Any = spark._jsparkSession.sessionState().conf()
    before = dict(spark.conf.getAll)
    with patch.object(type(spark), "stop", lambda _: None):
        try:
            yield
        finally:
            for name, value in dict(spark.conf.getAll).items():
                if name not in before:
                    conf.unsetConf(name)
                elif value != before[name]:
                    conf.setConfString(name, before[name])


@contextmanager
def told_to_end(moment: Callable[[], object], what: str, seconds: float) -> Iterator[None]:
    """SIGTERM for this process, and so for a command that runs in it, as soon as the moment has come."""
    over = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # whose command has ended meanwhile, that bears it

    def end() -> None:
        try:
            wait_until(lambda: over.is_set() or moment(), what, seconds)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        with ThreadPoolExecutor(1) as pool:
            ending = pool.submit(end)
            try:
                yield
            finally:
                over.set()
        ending.result()
    finally:
        signal.signal(signal.SIGTERM, before)


def spark_options() -> tuple[object, ...]:
    """Options for commands that start a small Spark, soon."""
    return "--master", "local[2]", *SMALL


ARCHIVING = """
kafka: {{main: {{bootstrap: "{bootstrap}"}}, other: {{bootstrap: "127.0.0.1:1"}}}}
pipeline:
  kafka: main
  spark:
    master: "local[2]"
    conf: {{spark.driver.memory: 512m, spark.driver.extraJavaOptions: "{quick}"}}
  archive: {{path: archive, topics: {{{topic}: orders}}, every: 200ms, offsets: 20}}
scopes: {{edge: {{}}}}
"""


def archiving_policy(broker: KafkaBroker, folder: Path) -> tuple[Path, str]:
    """Write a policy file that says everything an archive needs; return it and its topic, of three partitions."""
    topic, file = broker.create_topic(partitions=3), folder / "policy.yaml"
    file.write_text(ARCHIVING.format(bootstrap=broker.bootstrap, topic=topic, quick=QUICK))
    return file, topic


def java_of(pid: int) -> int:
    """The process id of the Java of a command's Spark; 0 as long as there is none."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
            ours = name == "java" and int(rest.split()[1]) == pid  # another one only says its version
            if ours and b"SparkSubmit" in (path.parent / "cmdline").read_bytes():
                return int(path.parent.name)
    return 0


def kill_all(driver: Process) -> None:
    """SIGKILL for a driver's Python and for its Java."""
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children")
    java = [int(each) for each in children.read_text().split()] if driver.alive else []
    driver.discard()
    for pid in java:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in java), "the driver to be gone")


def micro_batches(commits: Path) -> int:
    """How many the folder `commits` of a checkpoint knows."""
    return len([each for each in commits.iterdir() if each.name.isdigit()]) if commits.exists() else 0


def offsets_in(file: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row of a Parquet file."""
    rows = pq.ParquetFile(file).read(columns=["partition", "offset"]).to_pylist()
    return [(row["partition"], row["offset"]) for row in rows]


def files(archive: Path) -> list[Path]:
    """The Parquet files that a reader of folders sees."""
    return sorted(archive.glob("address=*/date=*/*.parquet"))


POLICY = """
gateway: {{http: off}}
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    listen:
      - {{bind: "127.0.0.1:{port}"}}
      - {{bind: "127.0.0.1:{named}", sasl: [scram-sha-256], users: "{users}"}}
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "direct", direct: balanced}}
    access: [{{who: "*", may: [send, receive, info], on: "**"}}]
"""


@contextmanager
def gateway_urls(broker: KafkaBroker) -> Iterator[tuple[str, str]]:
    """A gateway with the broker's topics under `events/`: its URL for everybody, and the one for bob (builder)."""
    gateways, (port, named) = Gateways(), ports(2)
    users = fresh_folder("pipeline") / "users.yaml"
    users.write_text(put_user("", "bob", make_entry("builder", salt=b"salt of a test!!")))
    try:
        gateways(POLICY.format(bootstrap=broker.bootstrap, port=port, named=named, users=users))
        yield f"amqp://127.0.0.1:{port}", f"amqp://127.0.0.1:{named}"
    finally:
        gateways.close()


def event(record: Record) -> bytes:
    """The message that the gateway delivers for a record, every byte."""
    key, value, headers = record.key, record.value, list(record.headers)
    kind, time = record.timestamp
    return RecordReader().encode(key, value, headers or None, record.partition, record.offset, kind, time)


def event_tuples(rows: Iterable[Any]) -> list[tuple[int, int, bytes | None, int, bytes]]:
    """Place, key, time and message of rows of the data source, in the order of the log."""
    found = [
        (
            row.partition,
            row.offset,
            optional(row.key),
            round(row.timestamp.timestamp() * 1000),
            bytes(row.head) + bytes(row.bare_message),
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: each[:2])


def expected(broker: KafkaBroker, topic: str) -> list[tuple[int, int, bytes | None, int, bytes]]:
    """The same from what a Kafka consumer sees."""
    return [(each.partition, each.offset, each.key, each.timestamp[1], event(each)) for each in consumed(broker, topic)]

"""`scopegate filter --topic`: the real command on a topic of a real broker."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.commands import Result, run
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer

POLICY = """
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    addresses: [{{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}]
    access: [{{who: "*", may: [receive], on: "**"}}]
"""


def call(policy: Path, *arguments: str) -> Result:
    return run("filter", *arguments, "--policy", str(policy))


def written(broker: KafkaBroker, folder: Path, records: int) -> tuple[Path, str]:
    """A policy, and the address of a topic where every tenth record is red."""
    topic = broker.create_topic(partitions=2)
    producer = new_producer(broker.bootstrap)
    for number in range(records):
        color = b"red" if number % 10 == 0 else b"blue"
        producer.produce(topic, f"v{number}", partition=number % 2, headers=[("color", color)], timestamp=1000 + number)
    assert producer.flush(PATIENCE) == 0
    file = folder / "policy.yaml"
    file.write_text(POLICY.format(bootstrap=broker.bootstrap))
    return file, f"events/{topic}"


def test_the_newest_events_are_judged_and_explained(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    policy, address = written(kafka_broker, tmp_path, 100)
    result = call(policy, "a.color = 'red'", "--topic", address, "--show", "1")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:2] == [
        "partition 0, offset 0: matches",
        "  true     a.color = 'red'   a.color is 'red' (string)",
    ]
    assert lines[2].split() == ["true", "false", "unknown"]
    assert lines[3].split(maxsplit=3) == ["10", "90", "0", "a.color = 'red'"]
    assert lines[4].startswith("100 events, 10 matching (10.00%); ")
    assert len(lines) == 5


def test_only_as_many_as_asked_for_are_read(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    policy, address = written(kafka_broker, tmp_path, 100)
    result = call(policy, "d.event-streams-timestamp >= 1", "--topic", address, "--count", "20", "--show", "0")
    assert result.stdout.splitlines()[-1].startswith("20 events, 20 matching (100.00%); ")


def test_an_empty_topic_and_one_that_is_not_there(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    policy, address = written(kafka_broker, tmp_path, 0)
    empty = call(policy, "TRUE", "--topic", address)
    assert (empty.returncode, empty.stdout, empty.stderr) == (1, "0 events, 0 matching; nothing to measure\n", "")
    missing = call(policy, "TRUE", "--topic", "events/no-such-topic")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no-such-topic" in missing.stderr

"""Replay to an AMQP address of the real gateway: the messages as they were, each accepted before it counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bridges.kafka.records.mapping import RecordReader
from bridges.spark.datasource.options import read_options
from bridges.spark.errors import PipelineError
from bridges.spark.replay.amqp_target import AmqpTarget
from gateway.amqp.message.sections import walk
from tests.support.amqp.messages import message
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark import archives
from tests.support.spark.pipeline import consumed, gateway_urls, here
from tests.support.spark.report import events

POLICY = """
gateway: {{http: off}}
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
    access: [{{who: "*", may: [send], on: "events/**"}}]
"""


def rows(stored: list[bytes]) -> pa.RecordBatch:
    """Rows of an archive with these messages in two partitions, as far as the target reads them."""
    heads = [walk(data).bare for data in stored]
    return pa.RecordBatch.from_pydict({
        "partition": [number % 2 for number in range(len(stored))],
        "offset": list(range(len(stored))),
        "head": [data[:head] for head, data in zip(heads, stored, strict=True)],
        "bare_message": [data[head:] for head, data in zip(heads, stored, strict=True)],
    })  # fmt: skip


def test_messages_arrive_as_they_were_and_the_progress_is_kept(
    kafka_broker: KafkaBroker, start_gateway: Gateways, tmp_path: Path
) -> None:
    topic, port, state = kafka_broker.create_topic(), free_port(), tmp_path / "_replays" / "name.json"
    start_gateway(POLICY.format(bootstrap=kafka_broker.bootstrap, port=port))
    options = read_options({"url": f"amqp://127.0.0.1:{port}", "address": f"events/{topic}"})
    plain = [message(b"%d" % number, app={"n": number}, ma={"x-opt-n": number}) for number in range(1200)]
    # as they come out of a log, with what it says of them there
    stored = [message(None, da={"event-streams-offset": "7", "other": 1}) + data for data in plain]
    target = AmqpTarget(options, state, "orders")
    assert target.progress == {}
    target.write(rows(stored))
    assert AmqpTarget(options, state, "orders").progress == {0: 1199, 1: 1200}
    reader = RecordReader()
    found = []
    for each in consumed(kafka_broker, topic):
        data = reader.encode(each.key, each.value, list(each.headers), 0, each.offset, 1, 0)
        layout = walk(data)
        found.append(data[: layout.da] + data[layout.ma :])
    assert found == plain

    with pytest.raises(PipelineError, match=r"^elsewhere at amqp://127\.0\.0\.1:\d+: "):
        AmqpTarget(read_options({"url": f"amqp://127.0.0.1:{port}", "address": "elsewhere"}), state, "orders")
    state.write_text("[")
    with pytest.raises(PipelineError, match="does not contain the progress of a replay: remove it to start again"):
        AmqpTarget(options, state, "orders")


def test_a_wrong_login_ends_the_replay_with_one_sentence(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic, password, archive = kafka_broker.create_topic(), tmp_path / "password", tmp_path / "archive"
    archives.written(archive, {"orders": events()})
    password.write_text("some-other-phrase-9")
    with gateway_urls(kafka_broker) as (_, url):
        who = f"url={url}", f"address=events/{topic}", "user=bob", f"passwordFile={password}"
        options = [each for pair in who for each in ("--amqp", pair)]
        done = here("replay", archive, "--from", "orders", *options)
    assert (done.returncode, done.stdout) == (1, "")
    *_, last = done.stderr.strip().splitlines()
    assert last.endswith(f"{url.removeprefix('amqp://')} refuses the login of bob: wrong user or password")
    assert "Traceback" not in done.stderr
    assert "some-other-phrase" not in done.stderr
    assert not list(archive.glob("_replays/*.json"))
    assert consumed(kafka_broker, topic) == []


def test_an_archive_is_replayed_without_spark_and_each_event_once(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic, archive = kafka_broker.create_topic(), tmp_path / "archive"
    archives.written(archive, {"orders": events()})
    with gateway_urls(kafka_broker) as (url, _):
        call = ("replay", archive, "--from", "orders", "--amqp", f"url={url}", "--amqp", f"address=events/{topic}")
        count = len(events())
        assert here(*call, "--dry-run").stdout == f"{count} events would be written\n"
        done = here(*call)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{count} events written in all\n"
        assert here(*call).stdout == "0 events written in all\n"
        slow = here(*call, "--name", "slow", "--rate", str(count / 3)).stdout.splitlines()
        assert slow[-1] == f"{count} events written in all"
        told = [int(line.removesuffix(" events written")) for line in slow[:-1]]
        assert 1 <= len(told) <= 3, "a line each second"
        assert told == sorted(told)
        assert "use no slash" in here(*call, "--name", "../slow").stderr
    assert len(consumed(kafka_broker, topic)) == 2 * count

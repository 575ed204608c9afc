"""The table behind the journal: what is counted, what is cut off, and that every loss is reported once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.records.event import EncodedEvent
from gateway.errors import AmqpError
from gateway.journal.link_counts import JournalOptions
from gateway.journal.readings import MOST_PARTITIONS, LogReading
from gateway.journal.recorder import Journal
from gateway.journal.rows import Heading
from gateway.journal.writer import JournalWriter
from gateway.observability.redaction import redact
from gateway.response.crossing_rule import SAME_SCOPE, choose
from gateway.routing.event_annotations import GROUP
from policies.load.loader import load_policy
from policies.text.diagnostics import PolicyErrors
from tests.support.amqp.messages import message


def journal(**options: Any) -> Journal:
    times = iter(range(0, 1_000_000, 1000))
    return Journal(Heading("gw", "p"), JournalOptions(**options), lambda: next(times))


def sender() -> Any:
    return SimpleNamespace(incoming=True, counter=None, accepted=0, outcome_counts={}, transfers=0)


def attach(table: Journal, address: str) -> Any:
    link = sender()
    table.allowed(link, "edge", address, "app", "direct")
    return link


def collected_rows(table: Journal) -> list[dict[str, Any]]:
    list(table.collect())
    rows = [json.loads(row[0]) for row in table.rows]
    table.rows.clear()
    return rows


class Handler:
    """A node's handler that takes all."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        self.got.append(data)

    def on_detach(self, error: AmqpError | None) -> None:
        self.got.append(b"gone")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("chat/room", "chat/room"),
        (None, None),
        ("$replies.core/AbC.dEf/more", "$replies.core/…"),
        ("$replies.core", "$replies.core"),
        ("$temp/secret", "$temp/…"),
        ("a" * 2000, "a" * 1024 + "…"),
        ("x/$temp/y", "x/$temp/…"),
        ("c-1-$replies.core/AbC '$temp/s'", "c-1-$replies.core/… '$temp/…'"),
        ("amqp://h/$REPLIES.core/AbC", "amqp://h/$REPLIES.core/…"),
        ("%24replies.core%2FAbC", "%24replies.core%2F…"),
        ("'$replies.core': no; '$replies.a.b'.", "'$replies.core': no; '$replies.a.b'."),
        ("replies.core." + "AQED" * 12 + "/$info", "replies.core.…/$info"),
        ("$temperature/5 in %20", "$temperature/5 in %20"),
        ("SharedAccessSignature sr=a%2Fb&sig=Ab%2B%3D&se=17", "SharedAccessSignature sr=a%2Fb&sig=…&se=17"),
        ("'sr%3Da%26SIG%3Dxyz' is no address", "'sr%3Da%26SIG%3D…' is no address"),
        ("Endpoint=sb://h/;SharedAccessKey=k+/=;EntityPath=e", "Endpoint=sb://h/;SharedAccessKey=…;EntityPath=e"),
        ("jwt eyJhbGciOiJ9.eyJzdWIi.c2ln'", "jwt eyJhbGciOiJ9.…'"),
        ("signals/design=1/monkey", "signals/design=1/monkey"),
    ],
)
def test_addresses_are_cut(address: str | None, expected: str | None) -> None:
    assert redact(address) == expected


def test_links_of_a_kind_share_a_row_and_idle_ones_leave() -> None:
    table, handler = journal(), Handler()
    links = [attach(table, "a"), attach(table, "a"), attach(table, "b")]
    tap = links[0].counter.instrument(handler)
    tap.on_transfer(None, b"12345", False)
    tap.on_detach(None)  # the rest of the handler is reached through it
    assert handler.got == [b"12345", b"gone"]
    links[1].accepted, links[1].outcome_counts = 3, {"released": 1}
    table.counted(links[1])
    rows = {row["address"]: row for row in collected_rows(table)}
    assert (rows["a"]["attached"], rows["a"]["messages"], rows["a"]["bytes"]) == (2, 1, 5)
    assert rows["a"]["outcomes"] == {"accepted": 3, "released": 1}
    assert rows["b"]["attached"] == 1
    assert collected_rows(table) == []
    for link in links:
        table.ended(link)
    collected_rows(table)
    assert table._links == {}


def test_every_loss_is_told_once() -> None:
    table = journal(buffer=2)
    for address in "abcd":
        attach(table, address)
    rows = collected_rows(table)
    assert [row["kind"] for row in rows] == ["link", "link"]  # no room for a third row
    assert table.lost == {"buffer": 0, "kinds": 2, "kafka": 0}
    (lost,) = collected_rows(table)
    assert (lost["kind"], lost["count"], lost["causes"]) == ("lost", 2, {"kinds": 2})
    assert collected_rows(table) == []
    attach(table, "a")
    list(table.collect())
    row = table.rows.popleft()
    table.lose(row)
    list(table.collect())
    reported = table.rows.popleft()
    assert json.loads(reported[0])["causes"] == {"kafka": 1}
    table.lose(reported)  # what it told is untold again, and it is lost itself
    (again,) = collected_rows(table)
    assert again["causes"] == {"kafka": 2}


def test_samples_beyond_the_buffer_are_counted() -> None:
    table = journal(sample=2, buffer=3)
    tap = attach(table, "a").counter.instrument(Handler())
    for _ in range(20):
        tap.on_transfer(None, message(b"x", to="a"), False)
    tap.on_transfer(None, b"no message", False)
    assert (len(table.rows), table.lost["buffer"]) == (3, 7)
    tap.on_transfer(None, b"no message", False)
    assert table.lost["buffer"] == 8


def test_what_is_no_message_is_told_as_such() -> None:
    table = journal(sample=1)
    attach(table, "a").counter.instrument(Handler()).on_transfer(None, b"\x00\x53", True)
    (row,) = [json.loads(row[0]) for row in table.rows]
    assert row["malformed"] == "amqp:decode-error"
    assert row["settled"]


def test_crossings_count_what_they_do() -> None:
    table = journal()
    context = SimpleNamespace(scope="core", reply_address=None)
    terminus = SimpleNamespace(capabilities=())
    target = SimpleNamespace(context=context, address="svc", target=terminus, announcement_counts=True)
    origin = SimpleNamespace(context=SimpleNamespace(scope="edge", replies="auto"))

    def crossing(data: bytes) -> bytes:
        if data == b"bad":
            raise AmqpError("amqp:invalid-field")
        return data + b"!"

    choice = choose("auto", keys=True, capable=False, carries=False)
    counting = table.crossing(origin, target, choice, crossing)  # type: ignore[arg-type]
    assert counting is not None
    for _ in range(3):  # an idle way leaves the table, and comes back with its next message
        assert counting(b"ab") == b"ab!"
        with pytest.raises(AmqpError):
            counting(b"bad")
        (row,) = collected_rows(table)
        assert (row["result"], row["messages"], row["bytes"]) == ("rewritten", 2, 5)
        assert row["refused"] == {"amqp:invalid-field": 1}
        assert collected_rows(table) == []
    assert table.crossing(origin, target, SAME_SCOPE, crossing) is crossing  # type: ignore[arg-type]


def reader(table: Journal, group: str | None = None) -> Any:
    """A link that reads an event log."""
    properties = {} if group is None else {GROUP: group}
    source = SimpleNamespace(filter={})
    link = SimpleNamespace(incoming=False, counter=None, source=source, properties=properties)
    table.allowed(link, "edge", "events/orders", "app", "kafka")
    return link


def lot(*times: int) -> list[EncodedEvent]:
    return [EncodedEvent(b"", 0, number, time=time) for number, time in enumerate(times)]


def test_links_that_read_are_told_while_they_are_open() -> None:
    now = [100_000]
    table = Journal(Heading("gw", "p"), JournalOptions(), lambda: now[0])
    links = [reader(table, "billing"), reader(table, "billing"), reader(table)]
    places = [{0: 5, 1: 9}, {0: 7}, {0: 1}]
    first, second, third = (link.counter.reading(lambda at=at: at) for link, at in zip(links, places, strict=True))
    table.readings.ends = {LogReading("", ""): {0: 20, 1: 8}}
    first.lot(500, 3, lot(99_000, 99_500, 100_000))  # in the log before the link
    now[0] = 100_007
    first.lot(10, 2, lot(100_000, 100_006))
    second.lot(4, 0, [])
    now[0] = 500_000
    second.lot(1, 1, lot(100_000))
    rows = {row.get("group"): row for row in collected_rows(table) if row["kind"] == "reading"}
    row = rows["billing"]
    assert (row["links"], row["scanned"], row["matched"], row["older"]) == (2, 515, 6, 3)
    assert (row["latency"], row["slowest_ms"]) == ({"10": 2, "more": 1}, 400_000)
    assert row["partitions"] == [
        {"partition": 0, "position": 5, "end": 20}, {"partition": 1, "position": 9, "end": 9},
    ]  # fmt: skip
    assert (rows[None]["scanned"], rows[None]["latency"], rows[None]["partitions"][0]["position"]) == (0, {}, 1)
    assert "slowest_ms" not in rows[None]
    third.end()
    first.end()
    places[1][0] = 12
    rows = {row.get("group"): row for row in collected_rows(table) if row["kind"] == "reading"}
    assert (rows["billing"]["links"], rows["billing"]["scanned"]) == (1, 0)
    assert [each["position"] for each in rows["billing"]["partitions"]] == [12, 9]
    assert rows[None]["links"] == 0
    second.end()
    second.end()
    assert [row["links"] for row in collected_rows(table) if row["kind"] == "reading"] == [0]
    assert [row for row in collected_rows(table) if row["kind"] == "reading"] == []


def test_readers_of_many_partitions_and_of_many_kinds() -> None:
    table = journal(buffer=1)
    link = reader(table)
    positions = dict.fromkeys(range(MOST_PARTITIONS + 10), 100)
    link.counter.reading(lambda: positions)
    table.readings.ends = {LogReading("", ""): {number: 100 + number for number in positions}}
    table.ended(link)
    list(table.collect())
    table.rows.clear()
    list(table.collect())
    (row,) = [json.loads(row[0]) for row in table.rows]
    assert min(each["partition"] for each in row["partitions"]) == 10  # the reader that is furthest behind counts
    assert len(row["partitions"]) == MOST_PARTITIONS
    other = reader(table, "other")
    lost = table.lost["kinds"]
    assert other.counter.reading(dict) is None
    assert table.lost["kinds"] == lost + 1


class Topic:
    """A topic that takes what it is given while it is there, and reports at once."""

    def __init__(self) -> None:
        self.there, self.problem = False, None
        self.records: list[dict[str, Any]] = []

    async def reach(self) -> None:
        if not self.there:
            raise AmqpError("amqp:not-found", "no such topic")

    def append(self, key: bytes, rows: Any, done: Any) -> int:
        self.records += [] if self.problem else [json.loads(row[0]) for row in rows]
        done(rows, self.problem)
        return len(rows)


async def nothing() -> None:
    """No log is read."""


async def test_counts_wait_for_the_topic_and_nothing_of_them_is_lost() -> None:
    table, topic = journal(buffer=2), Topic()
    pump = JournalWriter(table, lambda: topic, lambda: None, nothing, key=b"p", interval=1)
    tap = attach(table, "a").counter.instrument(Handler())
    for _ in range(5):
        tap.on_transfer(None, b"x", False)
        await pump.turn(collect=True)
    assert topic.records == []
    topic.there = True
    await pump.turn(collect=True)
    (row,) = topic.records
    assert (row["messages"], table.lost["kafka"]) == (5, 0)
    topic.problem = "timed out"
    tap.on_transfer(None, b"x", False)
    await pump.turn(collect=True)
    assert {labels[0][1]: count for _, labels, count in pump.counts()} == {
        "written": 1, "lost: buffer": 0, "lost: kinds": 0, "lost: kafka": 1,
    }  # fmt: skip
    topic.problem = None
    await pump.turn(collect=True)
    assert topic.records[-1]["causes"] == {"kafka": 1}


@pytest.mark.parametrize(
    ("journal", "problem"),
    [
        ("{kafka: mian}", "gateway.journal.kafka: there is no Kafka cluster mian; did you mean main?"),
        ("{kafka: main, interval: 50ms}", "gateway.journal.interval: must be at least 100ms"),
        ("{topic: x}", "gateway.journal.kafka"),
        ("{kafka: main, topic: 'a b'}", "gateway.journal.topic"),
    ],
)
def test_mistakes_in_the_policy(tmp_path: Path, journal: str, problem: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"gateway: {{journal: {journal}}}\nkafka: {{main: {{}}}}\nscopes: {{edge: {{}}}}\n")
    with pytest.raises(PolicyErrors) as errors:
        load_policy(path, environ={}, read_bytes=Path.read_bytes, with_secrets=False)
    assert problem in str(errors.value)

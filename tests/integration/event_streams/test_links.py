"""Event streams as a client meets them: the open, links, keys and filters, on the real process (ES-E2E-1 to -7).

Everything on a real broker and on the embedded one.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from proton import Message

from gateway.amqp.codec.types import Array, Described, Symbol, Timestamp, Ulong
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.crossing import Inbox, Outbox, connected, hop_annotations
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.embedded_kafka import EmbeddedKafka, Kafka, begun, on
from tests.support.servers.kafka import new_producer

ES = "AMQP_EVENT_STREAMS_V1_0"
PARTITION = Symbol("event-streams-partition")
SOURCE = "event-streams-source-partition"
OFFSET, TIMESTAMP = "event-streams-offset", "event-streams-timestamp"
POSITION = "amqp:event-streams-delivery-annotations-filter"
EVENT_SQL, EVENT_SQL_CODE, SQL = "amqp:event-streams-sql-filter", 0x201, "amqp:sql-filter"


class Place:
    """A gateway on a broker of its own or on the embedded one."""

    def __init__(self, gateways: Gateways, broker: Kafka) -> None:
        self.broker = broker
        document = Document()
        on(broker, document)
        rules = document.scope()["addresses"]
        rules += [{"match": "keyed/{topic}", "kafka": "main", "key_from": ["group-key", "group-id"]}]
        self.without = document.add_scope("none", {"match": "chat/**", "direct": "balanced"})
        begun(broker, gateways(document.text))
        self.port = document.edge

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        return self.broker.create_topic(partitions=partitions)

    def fill(self, topic: str, *bodies: bytes, **fields: Any) -> None:
        """Append events through the gateway."""
        outbox = Outbox(self.port, f"events/{topic}")
        outbox.credit()
        for body in bodies:
            assert outbox.send(message(body, **fields)).matches("accepted")

    def records(self, topic: str, partitions: int, count: int) -> list[Any]:
        """The records as any Kafka client reads them."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "t", "log_level": 0})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: list[Any] = []
        while len(found) < count:
            found += (batch := consumer.consume(count - len(found), PATIENCE))
            assert batch, f"only {len(found)} of {count} records"
        consumer.close()
        return found


@pytest.fixture(scope="module", params=["broker", "embedded"])
def place(request: pytest.FixtureRequest, start_module_gateway: Gateways) -> Place:
    broker = request.getfixturevalue("kafka_broker") if request.param == "broker" else EmbeddedKafka()
    return Place(start_module_gateway, broker)


def filters(*given: Described) -> dict[Symbol, Described]:
    return {Symbol(f"f{number}"): each for number, each in enumerate(given)}


def since(offset: str = "@earliest") -> Described:
    return Described(Symbol(POSITION), {Symbol(OFFSET): Symbol(offset)})


def reading(port: int, address: str, *given: Described, **fields: Any) -> Inbox:
    """A receiver with these filters."""
    return Inbox(port, address, source=frames.source(address, filter=filters(*given)), **fields)


def bodies(inbox: Inbox) -> list[bytes]:
    """All events up to the end of the log, which a drain reaches."""
    found = []
    inbox.peer.flow(inbox.handle, link_credit=1000, delivery_count=inbox.received, drain=True)
    while True:
        frame = inbox.peer.receive()
        assert frame is not None
        if frame.kind == "transfer":
            inbox.received += 1
            found.append(sections(frame.payload)["data"])
        elif frame.kind == "flow" and frame.drain and not frame.link_credit:
            return found


# -- the open


@pytest.mark.row("ES-3.1-1", "ES-3.1-2", "ES-3.1-5", "ES-3.1-6", "ES-8-2", "ES-8-3", "ES-8-4", "ES-8-5")
@pytest.mark.parametrize("desired", [None, ES])
def test_what_a_conforming_node_needs_whether_it_is_desired_or_not(place: Place, desired: str | None) -> None:
    topic = place.topic()
    place.fill(topic, b"0", b"1", b"2")
    requested = None if desired is None else Array("symbol", (Symbol(desired),))
    peer = Peer(place.port)
    offered = peer.start(desired_capabilities=requested).offered_capabilities
    assert isinstance(offered, Array)
    assert offered.kind == "symbol"
    assert ES in offered.items
    info = sections(Inbox(peer, f"events/{topic}/$info", 0, credit=1).take())["value"]
    assert [entry["partition"] for entry in info["partitions"]] == ["0"]
    after = info["partitions"][0]["earliest-offset"]
    source = frames.source(f"events/{topic}", filter=filters(since(after)))
    inbox = Inbox(peer, f"events/{topic}", 1, source=source, properties={PARTITION: Symbol("0")})
    assert inbox.attach.properties == {PARTITION: Symbol("0")}
    assert bodies(inbox) == [b"1", b"2"]
    elsewhere = Peer(place.without).start(desired_capabilities=requested).offered_capabilities
    assert ES not in elsewhere.items


@pytest.mark.row("ES-1-5", "ES-3.2-2", "ES-8-1")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("library", ["proton", "jms", "rhea"])
def test_clients_that_know_nothing_of_event_streams(place: Place, library: str, partitions: int) -> None:
    topic = place.topic(partitions)
    address = f"events/{topic}"
    place.fill(topic, *[b"before"] * 3)  # who asks for nothing gets what is added from the attach on
    expected = sorted(f"hello {number}" for number in range(5))
    if library == "proton":
        here = Login(place.port)
        receiver = receive(here, address, 5)
        receiver.attached()
        sent = send(here, address, [Message(body=f"hello {number}") for number in range(5)])
        assert {outcome.name for outcome in sent.finish()} == {"accepted"}
        assert sorted(got.message.body for got in receiver.finish()) == expected
        return
    client = Foreign(library, place.port)
    running = client.run("receive", address, count=5).attached()
    client.run("send", address, count=5, body="hello {n}").finish()
    assert sorted(event["body"] for event in running.finish() if event["event"] == "message") == expected


# -- links and partitions


@pytest.mark.row("ES-3.2-3", "ES-4-3", "ES-4-9", "ES-4-15", "ES-4.6.4-2")
def test_links_are_bound_or_see_everything_and_every_event_names_its_partition(place: Place) -> None:
    topic = place.topic(3)
    address = f"events/{topic}"
    every = reading(place.port, address, since())
    assert every.attach.properties in (None, {})
    bound = [
        reading(place.port, address, since(), properties={PARTITION: name}) for name in (Symbol("0"), Symbol("1"), "2")
    ]
    for number, inbox in enumerate(bound):
        (answered,) = inbox.attach.properties.values()
        assert (answered, type(answered)) == (str(number), Symbol)
        outbox = Outbox(place.port, address, properties={PARTITION: Symbol(str(number))})
        assert outbox.attach.properties == {PARTITION: Symbol(str(number))}
        assert outbox.send_with_credit(message(b"to %d" % number)).matches("accepted")
    for number, inbox in enumerate(bound):
        event = inbox.take()
        partition = hop_annotations(event)[SOURCE]
        assert (sections(event)["data"], partition, type(partition)) == (b"to %d" % number, str(number), Symbol)
    seen = [every.take() for _ in bound]
    assert {hop_annotations(event)[SOURCE]: sections(event)["data"] for event in seen} == {
        str(number): b"to %d" % number for number in range(3)
    }


# -- keys


def keyed(key: str | None, group: str | None, body: bytes) -> bytes:
    ma = {} if key is None else {"event-streams-group-key": key}
    return message(body, ma=ma, group_id=group) if group else message(body, ma=ma)


@pytest.mark.row("ES-4.6.7-3")
def test_the_group_id_is_a_key_only_where_the_policy_says_so(place: Place) -> None:
    topic = place.topic()
    for rule in ("events", "keyed"):
        outbox = Outbox(place.port, f"{rule}/{topic}")
        outbox.credit()
        for key, group in (("k", "g"), (None, "g"), (None, None)):
            assert outbox.send(keyed(key, group, rule.encode())).matches("accepted")
    found = [(record.value(), record.key()) for record in place.records(topic, 1, 6)]
    assert found == [
        *((b"events", key) for key in (b"k", None, None)),
        *((b"keyed", key) for key in (b"k", b"g", None)),
    ]
    inbox = reading(place.port, f"events/{topic}", since())
    events = [sections(inbox.take()) for _ in range(5)]
    assert [event.get("properties", {}).get("group_id") for event in events] == ["g", "g", None, "g", "g"]
    assert [event.get("message_annotations", {}).get("event-streams-group-key") for event in events] == [
        "k", None, None, "k", None,
    ]  # fmt: skip


@pytest.mark.row("ES-4.6.7-4")
def test_a_key_chooses_the_partition_of_agnostic_links_only(place: Place) -> None:
    topic = place.topic(3)
    agnostic = Outbox(place.port, f"events/{topic}")
    agnostic.credit()
    for number in range(20):
        assert agnostic.send(keyed(f"k{number % 5}", None, b"agnostic")).matches("accepted")
    chosen: dict[bytes, set[int]] = {}
    for record in place.records(topic, 3, 20):
        chosen.setdefault(record.key(), set()).add(record.partition())
    assert [len(partitions) for partitions in chosen.values()] == [1] * 5
    assert len(set.union(*chosen.values())) > 1
    for number in range(3):
        outbox = Outbox(place.port, f"events/{topic}", properties={PARTITION: Symbol(str(number))})
        assert outbox.send_with_credit(keyed("k0", None, b"bound")).matches("accepted")
    inbox = reading(place.port, f"events/{topic}", since())
    events = [inbox.take() for _ in range(23)]
    last = [event for event in events if sections(event)["data"] == b"bound"]
    assert {hop_annotations(event)[SOURCE] for event in last} == {"0", "1", "2"}
    assert {sections(event)["message_annotations"]["event-streams-group-key"] for event in last} == {"k0"}


# -- filters


@pytest.fixture(scope="module")
def colours(place: Place) -> str:
    """The address of a log with red and blue events, one of them without properties."""
    topic = place.topic()
    outbox = Outbox(place.port, f"events/{topic}")
    outbox.credit()
    for number, colour in enumerate(("red", "blue", "red", None, "red")):
        app = {} if colour is None else {"colour": colour}
        assert outbox.send(message(b"%d" % number, app=app)).matches("accepted")
    return f"events/{topic}"


RED = Described(Symbol("amqp:application-properties-filter"), {"colour": "red"})


@pytest.mark.row("ES-5.2-1", "ES-5.2-2", "ES-5.2-3", "ES-5.2-4")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([RED, since()], [b"0", b"2", b"4"]),
        ([since(), Described(Symbol(SQL), "colour = 'blue'")], [b"1"]),
        ([RED, since("0" * 19 + "1")], [b"2", b"4"]),
        ([Described(Symbol(EVENT_SQL), "TRUE"), RED], [b"0", b"2", b"4"]),
        ([Described(Symbol(SQL), f"d.[{OFFSET}] >= '{2:020d}' AND colour IS NULL")], [b"3"]),
        ([since(), Described(Symbol("amqp:properties-filter"), {Symbol("subject"): "none"})], []),
        ([RED], []),
    ],
)
def test_every_filter_of_a_link_has_to_match(
    place: Place, colours: str, given: list[Described], expected: list[bytes]
) -> None:
    inbox = reading(place.port, colours, *given, credit=0)
    assert list(inbox.attach.source["filter"].values()) == given
    assert bodies(inbox) == expected


@pytest.mark.row("ES-5.2.2-1", "ES-5.2.2-3", "ES-5.2.2-5", "ES-5.2.2-6", "ES-5.2.2-7", "ES-5.2.2-8")
@pytest.mark.parametrize("descriptor", [Symbol(EVENT_SQL), Ulong(EVENT_SQL_CODE), Symbol(SQL)], ids=str)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"d.{OFFSET} > '{2:020d}'", [b"3", b"4"]),
        (f"delivery_annotations.{OFFSET} <= '{0:020d}'", [b"0"]),
        (f"d.{OFFSET} > '@earliest' AND d.{TIMESTAMP} > 5", [b"0", b"1", b"2", b"3", b"4"]),
        (f"'{3:020d}' <= d.{OFFSET}", [b"3", b"4"]),
        (f"d.{TIMESTAMP} > 1585672841", [b"0", b"1", b"2", b"3", b"4"]),  # seconds
        (f"d.{TIMESTAMP} > 1585672841000 AND d.{TIMESTAMP} < 4102444800000", [b"0", b"1", b"2", b"3", b"4"]),
        (f"d.{TIMESTAMP} > 4102444800", []),
        ("d.foo > 1", []),
        ("FALSE", []),
    ],
)
def test_the_simple_language_under_all_its_names(
    place: Place, colours: str, descriptor: Any, text: str, expected: list[bytes]
) -> None:
    inbox = reading(place.port, colours, Described(descriptor, text), credit=0)
    (echoed,) = inbox.attach.source["filter"].values()
    assert (echoed.descriptor, type(echoed.descriptor), echoed.value) == (descriptor, type(descriptor), text)
    assert bodies(inbox) == expected


@pytest.mark.row("ES-5.2.2-1")
def test_a_filter_may_be_described_twice(place: Place, colours: str) -> None:
    nested = Described(Ulong(EVENT_SQL_CODE), Described(Symbol(SQL), f"d.{OFFSET} = '{1:020d}'"))
    assert bodies(reading(place.port, colours, nested, credit=0)) == [b"1"]


@pytest.mark.row("ES-5.1.2-3")
def test_events_of_one_moment_keep_their_order(place: Place) -> None:
    topic, moment = place.topic(), 1_700_000_000_123
    producer = new_producer(place.broker.bootstrap)
    for number in range(5):
        producer.produce(topic, b"%d" % number, timestamp=moment)
    assert producer.flush(PATIENCE) == 0
    inbox = reading(place.port, f"events/{topic}", since())
    events = [inbox.take() for _ in range(5)]
    assert [hop_annotations(event)[TIMESTAMP] for event in events] == [moment] * 5
    assert [sections(event)["data"] for event in events] == [b"%d" % number for number in range(5)]
    for after, expected in ((moment, 0), (moment - 1, 5)):
        later = Described(Symbol(POSITION), {Symbol(TIMESTAMP): Timestamp(after)})
        assert len(bodies(reading(place.port, f"events/{topic}", later, credit=0))) == expected


# -- several filters at a time, and what is malformed


@pytest.mark.row("ES-5.2.1-3", "ES-5.2.2-2")
@pytest.mark.parametrize(
    "wrong",
    [
        Described(Symbol(POSITION), {Symbol(SOURCE): Symbol("0")}),
        Described(Symbol(EVENT_SQL), ""),
        Described(Symbol(EVENT_SQL), f"NOT d.{OFFSET} > 'x'"),
    ],
    ids=str,
)
def test_what_is_malformed_refuses_the_link(place: Place, colours: str, wrong: Described) -> None:
    peer = connected(place.port)
    peer.attach("wrong", RECEIVER, source=frames.source(colours, filter=filters(since(), wrong)))
    peer.expect("attach", source=None)
    assert peer.expect("detach", closed=True, error="amqp:invalid-field").error["info"] is not None

"""Event streams with unmodified clients, as far as each supports them: proton, rhea, Qpid JMS (ES-E2E-3 to -13).

On a real broker and on the embedded one. Proton and rhea can ask for all of the extension; JMS has durable
subscriptions.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest
from proton import Described, Message, symbol
from proton.reactor import DurableSubscription, Filter

from tests.integration.event_streams.test_links import SQL, Place
from tests.support.amqp.foreign import Foreign, Running, jms_command
from tests.support.amqp.proton_clients import Failed, LinkProperties, Login, Receiving, receive, send
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import Process
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.kafka import writing

POSITION = "amqp:event-streams-delivery-annotations-filter"
PARTITION, GROUP, EPOCH = "event-streams-partition", "event-streams-consumer-group", "event-streams-epoch"
SOURCE, OFFSET = "event-streams-source-partition", "event-streams-offset"
KEY, TARGET = "event-streams-group-key", "event-streams-target-partition"


class Event(NamedTuple):
    """An event as a client received it, with its position in the log."""

    body: Any
    partition: str
    offset: str


@pytest.fixture(scope="module", params=["broker", "embedded"])
def place(request: pytest.FixtureRequest, start_module_gateway: Gateways) -> Place:
    broker = request.getfixturevalue("kafka_broker") if request.param == "broker" else EmbeddedKafka()
    return Place(start_module_gateway, broker)


class Proton:
    """A proton client; `wanted` has the link's requests: partition, group, epoch, offset, sql, durable."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: Receiving

    def begin(self, address: str, count: int, **wanted: Any) -> Proton:
        """Attach and receive."""
        filters = {}
        if "offset" in wanted:
            after = {symbol(OFFSET): symbol(wanted["offset"])}
            filters[symbol("position")] = Described(symbol(POSITION), after)
        if "sql" in wanted:
            filters[symbol("sql")] = Described(symbol(SQL), wanted["sql"])
        options = [Filter(filters)] if filters else []
        options += [LinkProperties(self._link_properties(wanted))]
        options += [DurableSubscription()] if "durable" in wanted else []
        login = Login(self._port, container=wanted.get("container"))
        self._client = receive(login, address, count, options=options)
        return self

    @staticmethod
    def _link_properties(wanted: dict[str, Any]) -> dict[str, Any]:
        asked = {PARTITION: symbol(wanted.get("partition", "")), GROUP: wanted.get("group"), EPOCH: wanted.get("epoch")}
        return {name: value for name, value in asked.items() if value not in (None, "")}

    def granted(self) -> dict[str, Any]:
        """The link properties in force."""
        return {str(key): value for key, value in (self._client.attached().receiver.remote_properties or {}).items()}

    def finish(self) -> list[Event]:
        """All requested events."""
        return [
            Event(_text(got.message.body), str(reported.get(SOURCE)), str(reported.get(OFFSET)))
            for got in self._client.finish()
            for reported in [got.message.instructions or {}]
        ]

    def fails(self) -> str:
        """The condition with which the link ends."""
        with pytest.raises(Failed) as failed:
            self._client.join()
        return failed.value.condition

    def send(self, address: str, count: int, *, partition: str = "", key: str = "", target: str = "") -> list[str]:
        """Send messages with their numbers as bodies; returns the outcomes."""
        annotations = {symbol(KEY): key} if key else None
        instructions = {symbol(TARGET): symbol(target)} if target else None
        messages = [Message(body=str(n), annotations=annotations, instructions=instructions) for n in range(count)]
        options = LinkProperties(self._link_properties({"partition": partition}))
        return [outcome.name for outcome in send(Login(self._port), address, messages, options=options).finish()]


class Rhea:
    """The same with rhea."""

    names = itertools.count()

    def __init__(self, port: int) -> None:
        self._client = Foreign("rhea", port)
        self._running: Running

    def begin(self, address: str, count: int, **wanted: Any) -> Rhea:
        """Attach and receive."""
        called = f"streams-{next(self.names)}"
        self._running = self._client.run("receive", address, called=called, count=count, exact="yes", **wanted)
        return self

    def granted(self) -> dict[str, Any]:
        """The link properties in force."""
        properties: dict[str, Any] = self._running.attached().events("attached")[0]["properties"]
        return properties

    def finish(self) -> list[Event]:
        """All requested events."""
        found = [event for event in self._running.finish() if event["event"] == "message"]
        reported = [event["delivery_annotations"] for event in found]
        return [
            Event(event["body"], str(about.get(SOURCE)), str(about.get(OFFSET)))
            for event, about in zip(found, reported, strict=True)
        ]

    def fails(self) -> str:
        """The condition with which the link ends."""
        return str(self._running.fail()["condition"])

    def send(self, address: str, count: int, **wanted: str) -> list[str]:
        """Send messages with their numbers as bodies; returns the outcomes."""
        return [outcome["outcome"] for outcome in self._client.run("send", address, count=count, **wanted).finish()]


Client = Proton | Rhea


def _text(body: Any) -> Any:
    return bytes(body).decode() if isinstance(body, bytes | memoryview) else body


@pytest.fixture(params=[Proton, Rhea])
def client(request: pytest.FixtureRequest) -> type[Client]:
    found: type[Client] = request.param
    return found


@pytest.mark.row("ES-1-2", "ES-1-7", "ES-5.2.1-5")
def test_a_client_goes_on_behind_the_offset_that_it_remembers(place: Place, client: type[Client]) -> None:
    topic = place.topic()
    place.fill(topic, *(b"%d" % number for number in range(5)))
    first = client(place.port).begin(f"events/{topic}", 3, offset="@earliest").finish()
    assert [event.body for event in first] == ["0", "1", "2"]
    last = first[-1].offset
    for asks in ({"offset": last}, {"sql": f"d.[{OFFSET}] > '{last}'"}):
        rest = client(place.port).begin(f"events/{topic}", 2, **asks).finish()
        assert [event.body for event in rest] == ["3", "4"], asks


@pytest.mark.row("ES-4.1-1", "ES-4.3-1", "ES-4.6.6-1", "ES-4.3-2")
def test_clients_choose_partitions(place: Place, client: type[Client]) -> None:
    topic = place.topic(3)
    address = f"events/{topic}"
    for wanted in ({"partition": "1"}, {"target": "1"}, {"target": "2", "key": "k"}):
        assert client(place.port).send(address, 2, **wanted) == ["accepted"] * 2
    found = [(record.partition(), record.key()) for record in place.records(topic, 3, 6)]
    assert sorted(found, key=str) == [(1, None)] * 4 + [(2, b"k")] * 2
    bound = client(place.port).begin(address, 2, partition="2", offset="@earliest")
    assert bound.granted() == {PARTITION: "2"}
    assert [(event.body, event.partition) for event in bound.finish()] == [("0", "2"), ("1", "2")]
    assert client(place.port).begin(address, 1, partition="9").fails() == "amqp:not-found"


@pytest.mark.row("ES-4.5-1", "ES-4.5-8", "ES-4.5.2-4", "ES-4.5.2-5", "ES-4.5.1-2")
def test_clients_are_members_of_groups(place: Place, client: type[Client]) -> None:
    topic = place.topic()
    address = f"events/{topic}"
    owner = client(place.port).begin(address, 1, group="g")
    assert owner.granted() == {GROUP: "g", PARTITION: "0", EPOCH: 0}
    assert client(place.port).begin(address, 1, group="g").fails() == "amqp:link:detach-forced"
    assert client(place.port).begin(address, 1, group="g", partition="0").fails() == "amqp:resource-locked"
    heir = client(place.port).begin(address, 2, group="g", partition="0", epoch=3)
    assert heir.granted()[EPOCH] == 3
    assert owner.fails() == "amqp:link:stolen"
    place.fill(topic, b"0", b"1")
    assert [event.body for event in heir.finish()] == ["0", "1"]


@pytest.mark.row("ES-3.2-7", "ES-3.2-8")
def test_a_client_that_knows_only_its_names_goes_on_where_it_was(place: Place, client: type[Client]) -> None:
    topic = place.topic()
    names = {"durable": "sub", "container": f"stock-{client.__name__}"}
    first = client(place.port).begin(f"events/{topic}", 3, **names)
    first.granted()
    place.fill(topic, *(b"%d" % number for number in range(5)))
    assert [event.body for event in first.finish()] == ["0", "1", "2"]
    place.fill(topic, b"5")
    again = client(place.port).begin(f"events/{topic}", 3, **names).finish()
    assert [event.body for event in again] == ["3", "4", "5"]


@pytest.mark.row("CORE-13", part="a full session")
def test_rhea_reads_a_log_to_its_end_though_its_session_takes_less_at_once(place: Place) -> None:
    """With its default settings that is 2,048 events; a drain ends when the credit that is left has come back."""
    topic, count = place.topic(), 4000
    with writing(place.broker.bootstrap) as produce:
        for number in range(count):
            produce(topic, b"%d" % number)
    events = Rhea(place.port).begin(f"events/{topic}", 5000, offset="@earliest", drain="yes").finish()
    assert [event.body for event in events] == [str(number) for number in range(count)]


@pytest.mark.row("ES-6-3", "ES-4-16")
def test_clients_read_what_a_log_holds(place: Place, client: type[Client]) -> None:
    topic = place.topic(3)
    ((body, *_),) = client(place.port).begin(f"events/{topic}/$info", 1).finish()
    assert [entry["partition"] for entry in body["partitions"]] == ["0", "1", "2"]


@pytest.mark.row("ES-3.2-7", "ES-3.2-8")
def test_a_durable_subscription_of_jms_goes_on_where_it_was(place: Place) -> None:
    topic = place.topic()
    first = subscriber(place.port, topic, 3).attached()
    place.fill(topic, *(b"%d" % number for number in range(5)))
    assert [event["body"] for event in first.finish()] == ["0", "1", "2"]
    place.fill(topic, b"5")
    assert [event["body"] for event in subscriber(place.port, topic, 3).finish()] == ["3", "4", "5"]


def subscriber(port: int, topic: str, count: int) -> Running:
    """Qpid JMS with a durable consumer."""
    asks = [f"amqp://127.0.0.1:{port}", "jms-client", "orders", f"events/{topic}", str(count)]
    return Running(Process("jms-subscriber", [*jms_command("Subscriber"), *asks]))

"""The unmodified azure-eventhub client for Python sends and receives through a listener of its dialect (EH)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.exceptions import AuthenticationError, EventHubError

from tests.support.eventhubs.hubs import KEYS, HubGateway
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.certs import Authority

QUICK: dict[str, Any] = {"retry_total": 0}


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.fixture
def hub(hubs: HubGateway) -> str:
    return hubs.hub()


@pytest.fixture
def producer(hubs: HubGateway, hub: str) -> Iterator[EventHubProducerClient]:
    client = EventHubProducerClient.from_connection_string(hubs.connection(), eventhub_name=hub, **QUICK)
    with client:
        yield client


def nothing(context: Any, event: EventData) -> None:
    """What is done with an event beside keeping it."""


def received(
    hubs: HubGateway, hub: str, count: int, *, key: str = "app", note: Callable[..., None] = nothing, **how: Any
) -> list[tuple[str, EventData]]:
    """The first `count` events, with their partitions; `note` sees each in its context."""
    client = EventHubConsumerClient.from_connection_string(
        hubs.connection(key), consumer_group="$Default", eventhub_name=hub, **QUICK
    )
    found: list[tuple[str, EventData]] = []
    done = threading.Event()

    def on_event(context: Any, event: EventData) -> None:
        found.append((context.partition_id, event))
        note(context, event)
        if len(found) >= count:
            done.set()

    how = {"starting_position": "-1", **how}
    thread = threading.Thread(target=client.receive, args=(on_event,), kwargs=how)
    thread.start()
    done.wait(PATIENCE)
    client.close()
    thread.join()
    return found


def batch(producer: EventHubProducerClient, bodies: list[str], **where: str) -> None:
    """Send a batch."""
    made = producer.create_batch(**where)
    for body in bodies:
        made.add(EventData(body))
    producer.send_batch(made)


def bodies(found: list[tuple[str, EventData]], partition: str | None = None) -> list[str]:
    return [event.body_as_str() for where, event in found if partition in (None, where)]


@pytest.mark.row("EH-1", "EH-2", "EH-5", "EH-8", "EH-9")
def test_events_go_in_and_come_out(hubs: HubGateway, hub: str, producer: EventHubProducerClient) -> None:
    event = EventData("single")
    event.properties = {"color": "red"}
    producer.send_event(event, partition_id="0")
    batch(producer, ["a", "b", "c"], partition_id="1")
    batch(producer, ["k1", "k2"], partition_key="key")

    found = received(hubs, hub, 6)

    assert sorted(bodies(found)) == ["a", "b", "c", "k1", "k2", "single"]
    assert [(where, each.body_as_str()) for where, each in found if each.properties] == [("0", "single")]
    ones = [each for where, each in found if where == "1" and each.partition_key is None]
    assert [(each.body_as_str(), each.sequence_number, each.offset) for each in ones] == [
        ("a", 0, "0"),
        ("b", 1, "1"),
        ("c", 2, "2"),
    ]
    assert all(each.enqueued_time is not None for each in ones)
    assert {each.partition_key for _, each in found if each.body_as_str() in ("k1", "k2")} == {b"key"}
    assert len({where for where, each in found if each.body_as_str() in ("k1", "k2")}) == 1


@pytest.mark.row("EH-3")
def test_properties_of_the_hub_and_of_a_partition(hubs: HubGateway, hub: str, producer: EventHubProducerClient) -> None:
    batch(producer, ["a", "b"], partition_id="2")

    assert producer.get_eventhub_properties()["partition_ids"] == ["0", "1", "2"]
    filled, empty = producer.get_partition_properties("2"), producer.get_partition_properties("0")
    assert (filled["beginning_sequence_number"], filled["last_enqueued_sequence_number"]) == (0, 1)
    assert (filled["last_enqueued_offset"], filled["is_empty"]) == ("1", False)
    assert (empty["last_enqueued_sequence_number"], empty["is_empty"]) == (-1, True)


@pytest.mark.row("EH-6")
def test_positions(hubs: HubGateway, producer: EventHubProducerClient, hub: str) -> None:
    for number in range(4):
        producer.send_event(EventData(str(number)), partition_id="1")
    whole = received(hubs, hub, 4, partition_id="1")
    time: Any = whole[1][1].enqueued_time
    later = [each.body_as_str() for _, each in whole if (each.enqueued_time or time) > time]
    cases: list[tuple[Any, bool, list[str]]] = [
        ("1", False, ["2", "3"]),
        (1, False, ["2", "3"]),
        (1, True, ["1", "2", "3"]),
        (time, False, later),
    ]

    def begin(case: tuple[Any, bool, list[str]]) -> list[str]:
        start, inclusive, expected = case
        how = {"starting_position": start, "starting_position_inclusive": inclusive, "partition_id": "1"}
        return bodies(received(hubs, hub, len(expected), **how))

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(begin, cases)) == [expected for _, _, expected in cases]


def _refused(act: Callable[[], object]) -> EventHubError:
    with pytest.raises(EventHubError) as caught:
        act()
    return caught.value


@pytest.mark.row("EH-8")
def test_each_event_tells_where_its_partition_ends(
    hubs: HubGateway, hub: str, producer: EventHubProducerClient
) -> None:
    """Also the first one; the last event's time is known when it has come, and until then it is 1970."""
    batch(producer, ["a", "b", "c"], partition_id="1")
    found: list[tuple[int, str, bool]] = []

    def note(context: Any, event: EventData) -> None:
        last = context.last_enqueued_event_properties
        found.append((last["sequence_number"], last["offset"], last["enqueued_time"] == event.enqueued_time))

    how = {"partition_id": "1", "track_last_enqueued_event_properties": True}
    received(hubs, hub, 3, note=note, **how)
    assert found == [(2, "2", False), (2, "2", False), (2, "2", True)]


@pytest.mark.row("EH-2")
def test_a_forged_token_opens_nothing(hubs: HubGateway, hub: str) -> None:
    forged = hubs.connection(secret="Zm9yZ2Vk")
    client = EventHubProducerClient.from_connection_string(forged, eventhub_name=hub, **QUICK)
    with client:
        error = _refused(client.get_eventhub_properties)
    assert isinstance(error, AuthenticationError)
    assert "InvalidSignature" in str(error)
    assert "Zm9yZ2Vk" not in hubs.gateway.process.text()
    assert "SharedAccessSignature" not in hubs.gateway.process.text()


@pytest.mark.row("EH-4")
def test_the_key_decides_what_its_user_may_do(hubs: HubGateway, hub: str, producer: EventHubProducerClient) -> None:
    producer.send_event(EventData("for the guest"), partition_id="0")
    client = EventHubProducerClient.from_connection_string(hubs.connection("guest"), eventhub_name=hub, **QUICK)
    with client:
        error = _refused(lambda: client.send_event(EventData("not allowed"), partition_id="0"))
    assert "not allowed to send" in str(error)
    assert hub in str(error)
    assert "events/" not in str(error), "the client does not know the address that the policy maps its event hub to"
    assert bodies(received(hubs, hub, 1, key="guest")) == ["for the guest"]
    assert hubs.gateway.wait_log("link attached", user="guest", direction="out")


@pytest.mark.row("EH-12", part="TLS")
def test_tls_without_the_emulator(start_gateway: Gateways, authority: Authority) -> None:
    hubs = HubGateway(start_gateway, tls=authority.server("localhost"))
    hub = hubs.hub()
    connection = f"Endpoint=sb://localhost/;SharedAccessKeyName=app;SharedAccessKey={KEYS['app']}"
    place = {"custom_endpoint_address": f"sb://localhost:{hubs.port}"}  # instead of port 5671
    client = EventHubProducerClient.from_connection_string(
        connection, eventhub_name=hub, connection_verify=str(authority.ca), **place, **QUICK
    )
    with client:
        client.send_event(EventData("private"), partition_id="0")
        assert client.get_partition_properties("0")["last_enqueued_sequence_number"] == 0


@pytest.mark.row("EH-3", "EH-12", part="quiet")
def test_what_the_client_does_is_never_bad_input(hubs: HubGateway, hub: str) -> None:
    """It detaches the links of a session behind its end, when it closes a connection."""
    before = len(hubs.gateway.log())
    client = EventHubProducerClient.from_connection_string(hubs.connection(), eventhub_name=hub, **QUICK)
    with client:
        assert client.get_eventhub_properties()["eventhub_name"] == hub
    connection = hubs.gateway.wait_log("link attached", after=before, address="$management")["connection"]
    assert hubs.gateway.wait_log("connection closed", connection=connection)["error"] is None
    mine = [line["event"] for line in hubs.gateway.log() if line.get("connection") == connection]
    assert "bad input" not in mine

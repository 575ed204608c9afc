"""The retry policies of unmodified clients meet the conditions of the dialect (EH-7, EH-11)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.exceptions import ConnectError, ConnectionLostError, EventDataSendError

from tests.support.eventhubs.hubs import HubGateway
from tests.support.eventhubs.java import JavaHubs
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.kafka.records import copies
from tests.support.servers.kafka import KafkaBroker

TRIES: dict[str, Any] = {"retry_total": 2, "retry_mode": "fixed", "retry_backoff_factor": 0.05}


def producer(hubs: HubGateway, hub: str) -> EventHubProducerClient:
    return EventHubProducerClient.from_connection_string(hubs.connection(), eventhub_name=hub, **TRIES)


@contextmanager
def reading(hubs: HubGateway, hub: str, level: int) -> Iterator[list[Exception]]:
    """A consumer with an owner level, and the errors that it reports."""
    client = EventHubConsumerClient.from_connection_string(
        hubs.connection(), consumer_group="$Default", eventhub_name=hub, **TRIES
    )
    errors: list[Exception] = []
    begin: dict[str, Any] = {"partition_id": "0", "owner_level": level, "on_event": lambda *_: None}
    begin["on_error"] = lambda _, error: errors.append(error)
    thread = threading.Thread(target=client.receive, kwargs=begin)
    thread.start()
    try:
        yield errors
    finally:
        client.close()
        thread.join(PATIENCE)


@pytest.mark.row("EH-7", part="who is displaced")
def test_who_is_displaced_hears_it(start_gateway: Gateways) -> None:
    hubs = HubGateway(start_gateway)
    hub = hubs.hub()
    place = f"amqps://127.0.0.1:{hubs.port}/{hub}/ConsumerGroups/$Default/Partitions/0"
    with reading(hubs, hub, 1) as lower:
        hubs.gateway.wait_log("link attached", address=place)
        with reading(hubs, hub, 2) as higher:
            wait_until(lambda: lower, "the error of the lower level")
            assert not higher
    assert isinstance(lower[0], ConnectionLostError)
    assert "amqp:link:stolen" in str(lower[0])


@pytest.mark.soak  # the real broker stands still and comes back
def test_who_sends_meanwhile_hears_of_it_or_tries_again(own_kafka: KafkaBroker, start_gateway: Gateways) -> None:
    hub = own_kafka.create_topic(partitions=3)
    hubs = HubGateway(start_gateway, at=own_kafka, client={"message.timeout.ms": "2000"})
    java, client = JavaHubs(), producer(hubs, hub)
    try:
        java.at(hubs, hub).run("one", "0", "before").finish()
        client.send_event(EventData("python"), partition_id="0")
        own_kafka.process.send_signal(signal.SIGSTOP)
        with pytest.raises(EventDataSendError, match=r"com\.microsoft:timeout"):  # which this client leaves to its user
            client.send_event(EventData("python"), partition_id="0")
        own_kafka.process.send_signal(signal.SIGCONT)
        own_kafka.kill()
        hubs.gateway.wait_log("kafka down")
        with pytest.raises(EventDataSendError, match=r"com\.microsoft:server-busy"):
            client.send_event(EventData("python"), partition_id="0")
        after = len(hubs.gateway.log())
        with producer(hubs, hub) as another, pytest.raises(ConnectError, match="503") as caught:
            another.get_partition_ids()
        assert "try again" in str(caught.value)
        asked = [line for line in hubs.gateway.log()[after:] if line.get("address") == "$management"]
        tries = [line for line in asked if line["event"] == "link attached" and line["direction"] == "in"]
        assert len(tries) == 1 + TRIES["retry_total"]
        trying = java.at(hubs, hub).run("one", "0", "after")
        own_kafka.start()
        trying.finish()
    finally:
        client.close()
        java.kill()
    # What timed out was on its way: it may be there as well.
    assert {b"before", b"after", b"python"} == {record.value() for record in copies(own_kafka, hub)}

"""What cannot be done is told to the clients for Go and Java at once (EH-11)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.eventhubs.foreign import HubClient, failure
from tests.support.eventhubs.hubs import HubGateway
from tests.support.eventhubs.java import JavaHubs
from tests.support.gateway.gateway import Gateways


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.fixture
def java() -> Iterator[JavaHubs]:
    found = JavaHubs()
    yield found
    found.kill()


@pytest.mark.row("EH-11", part="Go")
def test_go_hears_of_a_mistake_at_once(hubs: HubGateway) -> None:
    client, nobody = HubClient("go", hubs, hubs.hub()), HubClient("go", hubs, "no-such-hub")
    unknown = nobody.start("read", "0", "1", "earliest", "")
    partition = client.start("read", "99", "1", "earliest", "")
    position = client.start("read", "0", "1", "offset", "many")
    assert "amqp:not-found" in failure(unknown)
    assert "there is no partition" in failure(partition)
    assert "com.microsoft:argument-out-of-range" in failure(position)


@pytest.mark.row("EH-11", part="Java")
def test_java_hears_of_a_mistake_at_once(hubs: HubGateway, java: JavaHubs) -> None:
    partition = java.at(hubs, hubs.hub()).run("one", "99", "body")
    unknown = java.at(hubs, "no-such-hub").run("one", "0", "body")
    assert "there is no partition" in partition.failure()
    assert "could not be found" in unknown.failure()

"""An attach that names a durable terminus by its link name alone (core 2.6.3) is refused; it remains (CORE-6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.kafka.consume.test_durable import NEVER, Place, numbers, settled
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.gateway import Gateways
from tests.support.servers.embedded_kafka import EmbeddedKafka


@pytest.mark.row("CORE-6")
@pytest.mark.parametrize("source", [None, frames.source(), frames.source(**NEVER)], ids=["absent", "empty", "other"])
def test_an_attach_without_an_address_does_not_find_it_and_keeps_it(start_gateway: Gateways, source: Any) -> None:
    place = Place(start_gateway, EmbeddedKafka())
    with place.attach(filter=None) as peer:
        place.produce(1, 2)
        assert numbers(peer, 2) == [1, 2]
        settled(place, peer)
    place.produce(3)
    with connected(place.document.edge, container_id="c1") as peer:
        peer.attach("l1", RECEIVER, source=source)
        peer.expect("attach", source=None)
        detach = peer.expect("detach", closed=True, error="amqp:invalid-field")
        assert "address" in detach.error["description"]
    with place.attach() as peer:
        assert numbers(peer, 1) == [3]

"""What a link hears when the state that it lives by has been emptied behind its back."""

from __future__ import annotations

from tests.integration.kafka.consume.test_durable import Place, numbers
from tests.support.gateway.gateway import Gateways
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.servers import Redis


def test_a_state_that_was_emptied_is_no_thief(start_gateway: Gateways, redis_server: Redis) -> None:
    """The client heard that its link was stolen, which says that another one goes on."""
    place = Place(start_gateway, EmbeddedKafka(), redis_server.url)
    with place.attach() as peer:
        redis_server.empty()
        error = peer.until("detach", closed=True, error="amqp:link:detach-forced").error
        assert "emptied" in error["description"]
    with place.attach() as peer:
        place.produce(1)
        assert numbers(peer, 1) == [1]

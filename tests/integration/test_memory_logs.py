"""What a hundred readers of event logs cost that do not read their sockets, under a small budget (found as B3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bench.running import resident_kib
from tests.support import kafka_embedded
from tests.support.document import Document
from tests.support.gateway import Gateway, Gateways
from tests.support.kafka import writing
from tests.support.links import passes, receiving, sending
from tests.support.members import Member, keep_connected
from tests.support.process import PATIENCE, wait_until

MEMORY = 256
"""MiB that the process may take."""
READERS, PARTITIONS, SIZE = 100, 8, 100_000
EACH = 45
"""Messages in each partition: the embedded cluster keeps about 5 MB of one."""
EMBEDDED = 2 * EACH * PARTITIONS * SIZE // 2**20
"""MiB that the cluster takes, which is in the same process: what it keeps, and answers that are on their way."""
ANY = 2**31 - 1
CLOSED = 'scopegate_held_back_total{how="closed"}'
SENDING = 'scopegate_held_back_total{how="sending"}'
connections = pytest.fixture(autouse=True)(keep_connected)


class Place:
    """A gateway with an embedded Kafka whose topic is filled, and a bystander."""

    def __init__(self, start: Gateways) -> None:
        kafka = kafka_embedded.EmbeddedKafka()
        kafka.topics = {"large": PARTITIONS}
        document = Document(memory=f"{MEMORY}MiB")
        kafka_embedded.on(kafka, document)
        self.gateway: Gateway = start(document.text)
        kafka_embedded.begun(kafka, self.gateway)
        self.port = document.edge
        with writing(kafka.bootstrap) as write:
            for number in range(EACH * PARTITIONS):
                write("large", bytes(SIZE), partition=number % PARTITIONS)
        self.bystanders = receiving(self.port, "chat/bystander", 1000), sending(self.port, "chat/bystander")
        self.resident = self.held = 0.0
        """The most that was seen: MiB, and of what may be held."""

    def looks(self) -> dict[str, float]:
        """What the gateway says now; the most is kept."""
        metrics = self.gateway.metrics()
        self.resident = max(self.resident, resident_kib(self.gateway.process.pid) / 1024)
        self.held = max(self.held, metrics["scopegate_held_bytes"] / metrics["scopegate_held_limit_bytes"])
        return metrics

    def sees(self, condition: Callable[[dict[str, float]], bool], what: str) -> None:
        """Look until the metrics are as wanted."""
        wait_until(lambda: condition(self.looks()), what, 2 * PATIENCE)


def test_a_hundred_readers_that_read_nothing_stay_within_the_budget(start_gateway: Gateways) -> None:
    """Each has as much credit as there can be; all of them wake at once, and no connection has to go for it."""
    place = Place(start_gateway)
    deaf = [Member(place.port, "events/large", {}, start="@earliest") for _ in range(READERS)]
    for each in deaf:
        each.attached()
    for each in deaf:
        each.peer.flow(0, link_credit=ANY, incoming_window=ANY)
    place.sees(lambda metrics: metrics.get(SENDING, 0) >= READERS, "all of them to be sent no more")
    for number in range(100):  # and nobody is sent more later on
        passes(place.bystanders[1], place.bystanders[0], number)
        place.looks()
    print(f"{place.resident:.0f} MiB at most, {place.held:.2f} of what may be held")
    assert place.held <= 1
    assert CLOSED not in place.looks()
    assert place.resident < MEMORY + EMBEDDED
    for each in deaf:
        each.cut()
    place.sees(lambda metrics: metrics['scopegate_held_bytes{kind="logs"}'] == 0, "what was kept of the log to go")
    place.sees(lambda metrics: metrics['scopegate_held_deliveries{kind="unsettled"}'] == 0, "all to be let go of")

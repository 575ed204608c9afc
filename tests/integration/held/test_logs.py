"""What a hundred readers of event logs cost that do not read their sockets, under a small budget (found as B3)."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from tests.bench.running import resident_kib
from tests.support.amqp import frames
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.members import Member, keep_connected, since
from tests.support.amqp.peer import Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers import embedded_kafka
from tests.support.servers.kafka import writing

MEMORY = 256
"""MiB that the process may take."""
READERS, PARTITIONS, SIZE = 100, 8, 100_000
EACH = 45
"""Messages in each partition: the embedded cluster keeps about 5 MB of one."""
DEAF, EACH_LINKS, LARGE = 20, 20, 900_000
"""Connections that read nothing, links of each, and the size of the five events that all of them want."""
UNCOUNTED = 1.5
"""Bytes that may be resident for each that is held: allocators, and answers of Kafka on their way."""
ANY = 2**31 - 1
LOGS = 'scopegate_held_bytes{kind="logs"}'
CLOSED = 'scopegate_held_back_total{how="closed"}'
SENDING = 'scopegate_held_back_total{how="sending"}'
connections = pytest.fixture(autouse=True)(keep_connected)


class Place:
    """A gateway with an embedded Kafka whose topic is filled, and a bystander."""

    def __init__(self, start: Gateways, *, partitions: int = PARTITIONS, each: int = EACH, size: int = SIZE) -> None:
        kafka = embedded_kafka.EmbeddedKafka()
        kafka.topics = {"large": partitions}
        document = Document(memory=f"{MEMORY}MiB")
        embedded_kafka.on(kafka, document)
        self.gateway: Gateway = start(document.text, warm=False)  # what is resident is its own
        embedded_kafka.begun(kafka, self.gateway)
        self.port = document.edge
        with writing(kafka.bootstrap) as write:
            for number in range(each * partitions):
                write("large", bytes(size), partition=number % partitions)
        self.bystanders = receiving(self.port, "chat/bystander", 1000), sending(self.port, "chat/bystander")
        self.resident = self.held = 0.0
        """The most that was seen: MiB, and what connections had of what may be held."""

    def looks(self) -> dict[str, float]:
        """What the gateway says now; the most is kept."""
        metrics = self.gateway.metrics()
        self.resident = max(self.resident, resident_kib(self.gateway.process.pid) / 1024)
        held = metrics["scopegate_held_bytes"] - metrics[LOGS]
        self.held = max(self.held, held / metrics["scopegate_held_limit_bytes"])
        return metrics

    def sees(self, condition: Callable[[dict[str, float]], bool], what: str) -> None:
        """Look until the metrics are as wanted."""
        wait_until(lambda: condition(self.looks()), what, 2 * PATIENCE)


def deaf_members(port: int, count: int) -> list[Member]:
    """So many readers, each with as much credit as there can be; all of them wake at once."""
    deaf = [Member(port, "events/large", {}, start="@earliest") for _ in range(count)]
    for each in deaf:
        each.attached()
    for each in deaf:
        each.peer.flow(0, link_credit=ANY, incoming_window=ANY)
    return deaf


def test_a_hundred_readers_that_read_nothing_stay_within_the_budget(start_gateway: Gateways) -> None:
    """The first hundred fill it and warm up; another hundred cost little more, and few connections have to go.

    What is read ahead may grow when all is held that may be: the heaviest go when it stays so for some seconds.
    """
    place, sizes, deaf = Place(start_gateway), list[float](), list[Member]()
    for turn in range(2):
        deaf += deaf_members(place.port, READERS)
        place.sees(lambda metrics: metrics.get(SENDING, 0) > 0, "some of them to be sent no more")
        for number in range(100 * turn, 100 * turn + 100):
            passes(place.bystanders[1], place.bystanders[0], number)
            place.looks()
        sizes.append(place.resident)
    print(f"{sizes} MiB at most, {place.held:.2f} of what may be held")
    assert place.held < 1.1
    assert place.looks().get(CLOSED, 0) < READERS // 4
    assert sizes[1] - sizes[0] < MEMORY / 4
    for each in deaf:
        each.cut()
    place.sees(lambda metrics: metrics[LOGS] == 0, "what was kept of the log to go")
    place.sees(lambda metrics: metrics['scopegate_held_deliveries{kind="unsettled"}'] == 0, "all to be let go of")


def deaf_peer(port: int) -> Peer:
    """A connection with many links that want all there is, and read nothing of it."""
    peer = connected(port)
    for handle in range(EACH_LINKS):
        peer.attach_receiver("events/large", handle, source=frames.source("events/large", filter=since("@earliest")))
    for handle in range(EACH_LINKS):
        peer.flow(handle, link_credit=ANY, incoming_window=ANY)
    return peer


def test_many_links_that_want_large_events_stay_within_the_budget(start_gateway: Gateways) -> None:
    """A link is sent one event at least, however large, and there are hundreds before one connection is slowed down.

    What becomes resident has to be on the account, but for a little; more than twice as much was. Two warm up.
    """
    place, held = Place(start_gateway, partitions=1, each=5, size=LARGE), "scopegate_held_bytes"
    nothing = place.looks()[held]
    deaf = [deaf_peer(place.port) for _ in range(2)]
    place.sees(lambda metrics: metrics[held] > nothing + 2 * EACH_LINKS * LARGE, "each link to have an event")
    before, resident = place.looks()[held], place.resident
    deaf += [deaf_peer(place.port) for _ in range(DEAF - 2)]
    place.sees(lambda metrics: metrics[held] > metrics["scopegate_held_limit_bytes"] * 3 / 4, "most of it to be held")
    most = 0.0
    for number in range(100):
        passes(place.bystanders[1], place.bystanders[0], number)
        most = max(most, place.looks()[held])
    grown, more = place.resident - resident, (most - before) / 2**20
    print(f"{grown:.0f} MiB more for {more:.0f} that are held; {place.held:.2f} of what may be held")
    assert place.held < 1.1
    assert grown < UNCOUNTED * more
    for each in deaf:
        each.disconnect()
    place.sees(lambda metrics: metrics['scopegate_held_deliveries{kind="unsettled"}'] == 0, "all to be let go of")


LINKS, EVENTS, EVENT = 8, 100, 15_000
"""Links on one connection, and what the log has for each: 1.5 MB."""
LIMIT = 8
"""MiB that the connection may hold: above half of it, it gets nothing new."""
KEPT = 'scopegate_held_bytes{kind="kept"}'


class Links:
    """Links on one log, on one connection: how much each was sent, and how much was released of all."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.sent = [0] * LINKS
        self.released = 0
        for handle in range(LINKS):
            source = frames.source("events/large", filter=since("@earliest"))
            peer.attach_receiver("events/large", handle, source=source)

    def grant(self, handle: int) -> None:
        self.peer.flow(handle, link_credit=EVENTS, delivery_count=self.sent[handle], incoming_window=ANY)

    def next(self) -> int:
        """The number of the next delivery."""
        frame = self.peer.until("transfer")
        self.sent[frame.handle] += 1
        return int(frame.delivery_id)

    def release_lot(self, handle: int, over: Callable[[], object] = bool) -> None:
        """Take what one link gets and release all of it at once: with credit left, it would come again."""
        self.grant(handle)
        got = list[int]()
        while len(got) < EVENTS and not over():
            if select.select([self.peer.detached()], [], [], 0.1)[0]:  # else it may just be held up
                got.append(self.next())
        if got:
            self.peer.disposition(got[0], "released", last=got[-1])
        self.released += len(got)


def test_events_that_are_released_are_on_the_account_and_hold_up_new_ones(start_gateway: Gateways) -> None:
    """They wait for credit to be sent again: a peer that grants none must not fill the memory link by link."""
    kafka = embedded_kafka.EmbeddedKafka()
    kafka.topics = {"large": 1}
    document = Document()
    document.scope()["listen"][0]["limits"] = {"memory": f"{LIMIT}MiB", "idle_timeout": "10m"}
    embedded_kafka.on(kafka, document)
    gateway = start_gateway(document.text)
    embedded_kafka.begun(kafka, gateway)
    with writing(kafka.bootstrap) as write:
        for _ in range(EVENTS):
            write("large", bytes(EVENT), partition=0)

    def held_up() -> bool:
        return bool(gateway.metrics().get(SENDING))

    with connected(document.edge) as peer:
        links = Links(peer)
        links.release_lot(0)
        gateway.wait_metric(KEPT, lambda size: size >= EVENTS * EVENT)
        assert not held_up()
        for handle in range(1, LINKS):
            links.release_lot(handle, held_up)
        assert sum(links.sent) < LINKS * EVENTS
        assert gateway.metrics()[KEPT] <= LIMIT * 2**20
        for handle in range(LINKS):  # now it takes them again, and gets all that is new
            links.grant(handle)
        while sum(links.sent) < LINKS * EVENTS + links.released:
            peer.disposition(links.next(), "accepted")
        gateway.wait_metric(KEPT, lambda size: size < 2 * EVENT)

"""Links that skip: they get on, answer a drain, and what they skipped is not read again (FX 2-2, ES-3.2-7).

The topic holds 200,000 records that match nothing but what a test adds.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from proton import Described as ProtonDescribed
from proton import Message, symbol
from proton.reactor import Filter, Selector

from gateway.amqp.codec.codec import Symbol, Uint
from tests.support.amqp import frames
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.links import connected, passes, receiving, sending
from tests.support.amqp.members import requested_properties
from tests.support.amqp.messages import sections
from tests.support.amqp.peer import Peer
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.filters.corpus import described, sql
from tests.support.filters.streams import EARLIEST, answers
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.servers import Redis

MANY = 200_000
RED = "color = 'red'"


class Long:
    """A topic of many blue records, and a gateway in front of it."""

    def __init__(self, gateways: Gateways, broker: KafkaBroker, redis: Redis) -> None:
        self.broker, self.topic = broker, broker.create_topic()
        self.document = Document(state=redis.url)
        self.document.kafka(broker.bootstrap)
        self.gateway: Gateway = gateways(self.document.text)
        self._producer = new_producer(broker.bootstrap, **{"queue.buffering.max.messages": 2 * MANY})
        self.end = 0
        self.put("blue", MANY)

    def put(self, color: str, count: int = 1) -> None:
        """Append records of a colour; their values are their offsets."""
        for _ in range(count):
            self._producer.produce(self.topic, b"%d" % self.end, headers=[("color", color.encode()), ("size", b"7")])
            self.end += 1
        assert self._producer.flush(3 * PATIENCE) == 0

    @property
    def address(self) -> str:
        return f"events/{self.topic}"

    def committed(self, mark: str) -> int | None:
        """The offset that ordinary tools see for the one group of this topic whose name has `mark`; None: none."""
        admin = self.broker.admin()
        for group in admin.list_consumer_groups(request_timeout=PATIENCE).result().valid:
            if mark not in group.group_id:
                continue
            asked_for = ConsumerGroupTopicPartitions(group.group_id)
            answer = admin.list_consumer_group_offsets([asked_for])[group.group_id].result()
            for each in answer.topic_partitions:
                if each.topic == self.topic:
                    return int(each.offset)
        return None


@pytest.fixture(scope="module")
def long(start_module_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis) -> Long:
    redis_server.empty()
    return Long(start_module_gateway, kafka_broker, redis_server)


def red(**filters: Any) -> dict[Symbol, Any]:
    """A filter set that lets red events through, from the earliest."""
    return {Symbol("red"): sql(RED), Symbol("start"): EARLIEST, **filters}


def numbers(peer: Peer, count: int) -> list[int]:
    """The values of the next events, each accepted."""
    found = []
    for _ in range(count):
        transfer = peer.until("transfer")
        peer.disposition(transfer.delivery_id, "accepted")
        found.append(int(sections(transfer.payload)["data"]))
    return found


def drained(peer: Peer, credit: int) -> float:
    """Ask for the end of what there is; seconds until the credit came back, with nothing before it."""
    start = time.monotonic()
    peer.flow(0, link_credit=credit, drain=True)
    peer.seconds = 3 * PATIENCE
    frame = peer.until("flow", link_credit=0)
    assert frame.drain
    return time.monotonic() - start


def test_a_drain_is_answered_past_all_that_does_not_match_and_others_are_served_meanwhile(long: Long) -> None:
    # a slow machine drains for as long as some thousand messages take: the credit of the others must not end before
    receiver = receiving(long.document.edge, "chat/room", credit=1_000_000)
    sender = sending(long.document.edge, "chat/room")
    took: list[float] = []
    waits: list[float] = []
    while len(waits) <= 5:  # a drain may be over before we, who stood still, have seen much of it: then another
        drains, peer = len(took), connected(long.document.edge)
        peer.attach_receiver(None, source=frames.source(long.address, filter=red()))
        draining = threading.Thread(target=lambda peer=peer: took.append(drained(peer, 5)))
        draining.start()
        while draining.is_alive():
            start = time.monotonic()
            passes(sender, receiver, len(waits))
            waits.append(time.monotonic() - start)
        draining.join()
        assert len(took) == drains + 1
        peer.disconnect()
    waits.sort()
    middle, longest = waits[len(waits) // 2] * 1000, waits[-1] * 1000
    print(f"{MANY} records skipped in {took[0]:.2f} s; others waited {middle:.1f} ms, at most {longest:.0f} ms")
    assert waits[-1] < 10


def test_what_matches_behind_all_the_rest_comes_and_new_events_are_seen(long: Long) -> None:
    peer = connected(long.document.edge)
    peer.attach_receiver(None, source=frames.source(long.address, filter=red()))
    peer.flow(0, link_credit=2)
    long.put("red")
    first = long.end - 1
    assert numbers(peer, 1) == [first]
    long.put("blue", 3)
    long.put("red")
    assert numbers(peer, 1) == [long.end - 1]
    peer.disconnect()


DURABLE = {"durable": Uint(2), "expiry_policy": Symbol("never")}


def test_a_durable_position_moves_over_what_is_skipped_and_does_not_go_back(long: Long) -> None:
    def attach(container: str = "skips") -> Peer:
        peer = connected(long.document.edge, container_id=container)
        source = frames.source(long.address, filter={Symbol("f"): sql("color = 'green'")}, **DURABLE)
        peer.attach_receiver(None, source=source, name="durable")
        return peer

    start = long.end
    peer = attach().flow(0, link_credit=5)
    long.put("blue", 1000)
    wait_until(lambda: long.committed("amqp.") == start + 1000, "the position behind what was skipped")
    peer.detach(0, closed=False).until("detach")
    peer.disconnect()
    long.put("green")
    long.gateway.stop()
    long.gateway.restart()
    assert long.committed("amqp.") == start + 1000
    again = attach().flow(0, link_credit=5)
    assert numbers(again, 1) == [start + 1000]
    wait_until(lambda: long.committed("amqp.") == start + 1001, "the position behind what was accepted")
    again.detach(0, closed=True).until("detach")


def test_a_groups_position_moves_over_what_is_skipped(long: Long) -> None:
    def join() -> Peer:
        peer = connected(long.document.edge)
        source = frames.source(long.address, filter={Symbol("f"): sql("color = 'violet'")})
        peer.attach_receiver(None, source=source, properties=requested_properties("skippers"))
        return peer.flow(0, link_credit=5)

    start, peer = long.end, join()
    long.put("blue", 1000)
    wait_until(lambda: long.committed("skippers") == start + 1000, "the group's position")
    peer.detach().until("detach")
    peer.disconnect()
    long.put("violet")
    assert numbers(join(), 1) == [start + 1000]


def test_many_links_with_different_filters_get_what_each_wants(long: Long) -> None:
    """Thirty filters on one partition, one of them on each of thirty colours."""
    start = long.end
    position = described(EARLIEST.descriptor, {Symbol("event-streams-offset"): Symbol(f"{start - 1:020d}")})
    colors = [f"c{number}" for number in range(30)]
    for color in (*colors, *reversed(colors)):
        long.put(color)
    sets = [{Symbol("f"): sql(f"color = '{color}' AND size = '7'"), Symbol("p"): position} for color in colors]
    found = [each.bodies for each in answers(long.document.edge, long.address, *sets)]
    assert found == [[start + number, start + 59 - number] for number in range(30)]


# -- unmodified clients


class Both(Filter):
    """Proton's own way to give filters it has no class for: SQL, from the earliest event."""

    def __init__(self, text: str) -> None:
        position = {symbol("event-streams-offset"): symbol("@earliest")}
        super().__init__(
            {
                symbol("sql"): ProtonDescribed(symbol("amqp:sql-filter"), text),
                symbol("start"): ProtonDescribed(symbol(str(EARLIEST.descriptor)), position),
            }
        )


def hello(count: int) -> list[Message]:
    return [Message(body=f"hello {n}", properties={"n": n}) for n in range(count)]


@pytest.mark.row("FX-1-1", "FX-2-2", "ES-5.2-1", "ES-5.2-2")
@pytest.mark.parametrize("options", [Selector("n BETWEEN 3 AND 4"), Both("a.n IN (3, 4)")], ids=["selector", "sql"])
def test_proton_on_an_event_stream(long: Long, options: Filter) -> None:
    address = f"events/{long.broker.create_topic(partitions=3)}"
    receiver = receive(Login(long.document.edge), address, 2, options=options).attached()
    outcomes = send(Login(long.document.edge), address, hello(6)).finish()
    assert [each.name for each in outcomes] == ["accepted"] * 6
    assert sorted(each.message.body for each in receiver.finish()) == ["hello 3", "hello 4"]


@pytest.mark.row("FX-1-1", "FX-2-2")
@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("jms", {"selector": "n > 2 AND n < 5 AND JMSPriority = 4 AND JMSDeliveryMode = 'PERSISTENT'"}),
        ("rhea", {"selector": "n > 2 AND n < 5"}),
        ("rhea", {"sql": "a.n > 2 AND n < 5 AND h.priority = 4"}),
    ],
    ids=["jms", "rhea-selector", "rhea-sql"],
)
def test_foreign_clients_on_an_event_stream(long: Long, library: str, options: dict[str, str]) -> None:
    address = f"events/{long.broker.create_topic()}"
    client = Foreign(library, long.document.edge)
    running = client.run("receive", address, count=2, **options).attached()
    sent = client.run("send", address, count=6, body="hello {n}").finish()
    assert [each["outcome"] for each in sent] == ["accepted"] * 6
    assert [each["body"] for each in running.finish()] == ["hello 3", "hello 4"]

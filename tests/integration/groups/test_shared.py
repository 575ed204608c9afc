"""Groups whose links share partitions without being bound to any (`group_mode: shared`; ES-4.5.1-8, ES-4.5.1-9)."""

from __future__ import annotations

import itertools
import select
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.amqp.codec.codec import Array, Long, Symbol
from gateway.amqp.message.sections import body_values, delivery_annotations, walk
from tests.support.amqp.frames import Frame
from tests.support.amqp.members import EPOCH, GROUP, PARTITION, Member, Producer, keep_connected, requested_properties
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.groups import command, group_state, serving
from tests.support.gateway.process import PATIENCE, ports, wait_until
from tests.support.gateway.warm import OFTEN, shortened
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis

POLICY = """
gateway: {{http: "127.0.0.1:{http}", log: json, state: "{state}", lease: 5s, drain: 1s}}
kafka: {{main: {{bootstrap: "{kafka}"}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main, group_mode: shared}}
      - {{match: "pend/{{topic}}", kafka: main, group_mode: shared, surplus: pend, pending_limit: 1}}
      - {{match: "bound/{{topic}}", kafka: main, surplus: pend}}
    access: [{{may: [send, receive, info]}}]
"""
CHANGED = "event-streams-associated-partitions-changed"
numbers = itertools.count()
connections = pytest.fixture(autouse=True)(keep_connected)


HERE = {"state": "memory", "kafka": "embedded"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    yield from serving(POLICY, "shared", 2 * PATIENCE, **HERE)


@pytest.fixture
def impatient() -> Iterator[int]:
    """The port of a gateway that waits for outcomes for a moment only."""
    for gateway in serving(POLICY, "shared", 0.2, **HERE):
        yield gateway.ports[0]


@pytest.fixture
def port(gateway: Gateway) -> int:
    return gateway.ports[0]


class Sharer(Member):
    """A member that records its events and its partition notifications."""

    def __init__(self, port: int, address: str, group: str = "g", credit: int = 1000, **fields: Any) -> None:
        super().__init__(port, address, requested_properties(group), **fields)
        assert self.attached(credit=credit).properties == {GROUP: group}, "bound to nothing"
        self.came: list[tuple[str, bytes]] = []
        self.told: list[tuple[str, ...]] = []
        self.unsettled: list[int] = []
        self.settles = True

    def poll(self, seconds: float = 0.05) -> bool:
        """Receive the next event, if there is one; a frame of which a part has come is waited for."""
        while (frame := self._next(seconds)) is not None and frame.kind != "transfer":
            pass
        if frame is None:
            return False
        layout = walk(frame.payload)
        annotations = delivery_annotations(frame.payload, layout)
        if (changed := annotations.get(CHANGED)) is not None:
            assert isinstance(changed, Array)
            assert changed.kind == "symbol"
            self.told.append(tuple(changed.items))
        self.came.append((str(annotations["event-streams-source-partition"]), body_values(frame.payload, layout)[0]))
        self.unsettled.append(frame.delivery_id)
        if self.settles:
            self.settle()
        return True

    def _next(self, seconds: float) -> Frame | None:
        return self.peer.receive() if select.select([self.peer.detached()], [], [], seconds)[0] else None

    def settle(self, outcome: str = "accepted") -> None:
        """Settle the received events."""
        for delivery in self.unsettled:
            self.peer.disposition(delivery, outcome)
        self.unsettled.clear()

    def of(self, body: bytes) -> set[str]:
        """The partitions of the events with this body, without duplicates."""
        found = [partition for partition, data in self.came if data == body]
        assert len(found) == len(set(found)), "delivered once"
        return set(found)


def spread(producer: Producer, body: bytes, *sharers: Sharer, partitions: int = 4) -> list[set[str]]:
    """Send an event to each partition; return which link received each."""
    for partition in range(partitions):
        producer.send(body, partition=partition)
    every = {str(partition) for partition in range(partitions)}
    wait_until(lambda: [s.poll() for s in sharers] and set().union(*(s.of(body) for s in sharers)) == every, "events")
    found = [sharer.of(body) for sharer in sharers]
    assert sum(map(len, found)) == partitions, "to one link each"
    return found


def levelled(producer: Producer, *sharers: Sharer, partitions: int = 4) -> list[set[str]]:
    """Send events until the partitions are balanced between the links; return their partitions."""
    found: list[set[str]] = []

    def level() -> bool:
        found[:] = spread(producer, b"%d" % next(numbers), *sharers, partitions=partitions)
        return max(map(len, found)) - min(map(len, found)) < 2

    wait_until(level, "the partitions to be level")
    return found


def gets(sharer: Sharer, body: bytes, count: int, seconds: float = PATIENCE) -> set[str]:
    """Wait for a number of events with this body; return their partitions."""
    wait_until(lambda: len(sharer.of(body)) == count or (sharer.poll() and False), f"{count} events", seconds)
    return sharer.of(body)


def moving(gateway: Gateway, address: str) -> int:
    """The number of partitions that are about to move."""
    return sum(owner["moving"] for owner in group_state(gateway, address, "g")["owners"])


def fences(gateway: Gateway, address: str) -> set[tuple[int, int]]:
    """The partitions of the group, with the fence that changes with their owner."""
    return {(owner["partition"], owner["fence"]) for owner in group_state(gateway, address, "g")["owners"]}


def last_notification(sharer: Sharer) -> set[str]:
    """The link's last partition notification."""
    return set(sharer.told[-1])


@pytest.mark.row("ES-4.5.1-8", "ES-4.6.5-1")
def test_a_lone_link_has_every_partition_and_is_bound_to_none(port: int, gateway: Gateway) -> None:
    alone, producer = Sharer(port, "events/alone"), Producer(port, "events/alone")
    assert spread(producer, b"x", alone) == [{"0", "1", "2", "3"}]
    assert alone.told == [("0", "1", "2", "3")]
    found = group_state(gateway, "events/alone", "g")
    assert [(owner["partition"], owner["chosen_by"]) for owner in found["owners"]] == [
        (number, "gateway") for number in range(4)
    ]
    assert (found["free"], found["waiting"], found["sharing"]) == ([], 0, 1)
    assert "1 link shares" in command(gateway, "--address", "events/alone", "--group", "g").stdout


@pytest.mark.row("ES-4.5.1-8", "ES-4.5.1-9", "ES-4.6.5-2", "ES-4.5-8")
def test_partitions_move_as_links_come_and_go_and_the_next_event_says_so(port: int) -> None:
    first, producer = Sharer(port, "events/moves"), Producer(port, "events/moves")
    spread(producer, b"x", first)
    second = Sharer(port, "events/moves")
    two = levelled(producer, first, second)
    assert [len(each) for each in two] == [2, 2]
    assert [last_notification(first), last_notification(second)] == two
    before = len(first.told), len(second.told)
    assert spread(producer, b"y", first, second) == two
    assert (len(first.told), len(second.told)) == before, "told once for each change"
    second.close()
    assert levelled(producer, first) == [{"0", "1", "2", "3"}]
    assert last_notification(first) == {"0", "1", "2", "3"}
    lost = Sharer(port, "events/moves")
    levelled(producer, first, lost)
    lost.cut()
    assert levelled(producer, first) == [{"0", "1", "2", "3"}]


@pytest.mark.row("ES-4.5.1-9")
def test_what_is_sent_again_does_not_tell_the_partitions_of_before(port: int, gateway: Gateway) -> None:
    first, producer = Sharer(port, "events/again"), Producer(port, "events/again")
    spread(producer, b"x", first)
    before = fences(gateway, "events/again")
    second = Sharer(port, "events/again")
    wait_until(lambda: len(fences(gateway, "events/again") - before) == 2, "two partitions to move")
    first.settles = False
    spread(producer, b"y", first, second)
    assert len(last_notification(first)) == 2
    second.close()
    levelled(producer, first)
    everything, times, count, held = {"0", "1", "2", "3"}, len(first.told), len(first.came), len(first.unsettled)
    assert last_notification(first) == everything
    first.settles = True
    first.settle("released")
    wait_until(lambda: len(first.came) == count + held or (first.poll() and False), "events that were given back")
    assert first.told[times:] == []


@pytest.mark.row("ES-4.5.1-9", "ES-4.6.5-2")
def test_the_next_event_tells_of_a_change_though_it_is_sent_again(port: int, gateway: Gateway) -> None:
    first, producer = Sharer(port, "events/next"), Producer(port, "events/next")
    first.settles = False
    spread(producer, b"x", first)
    before, names = fences(gateway, "events/next"), [name for name, _ in first.came]
    left = dict(zip(names, first.unsettled, strict=True))
    second = Sharer(port, "events/next")
    wait_until(lambda: moving(gateway, "events/next") == 2, "the group to deal anew")
    for owner in group_state(gateway, "events/next", "g")["owners"]:
        if owner["moving"]:
            first.peer.disposition(left.pop(str(owner["partition"])), "accepted")
    wait_until(lambda: len(fences(gateway, "events/next") - before) == 2, "two partitions to move")
    times, count = len(first.told), len(first.came)
    for delivery in left.values():
        first.peer.disposition(delivery, "released")
    wait_until(lambda: len(first.came) == count + 2 or (first.poll() and False), "events that were given back")
    assert [set(names) for names in first.told[times:]] == [set(left)], "once, by the first of them"
    assert not second.came


@pytest.mark.row("ES-4.5.1-8", "ES-4.5-8")
def test_a_partition_moves_when_the_outcomes_are_in_and_goes_on_behind_them(port: int, gateway: Gateway) -> None:
    first, producer = Sharer(port, "events/waits"), Producer(port, "events/waits")
    first.settles = False
    spread(producer, b"x", first)
    second = Sharer(port, "events/waits")
    wait_until(lambda: moving(gateway, "events/waits") == 2, "the group to deal anew")
    for partition in range(4):
        producer.send(b"y", partition=partition)
    stays = gets(first, b"y", 2)
    assert not second.poll(0.5), "the first link has not settled yet"
    first.settle()
    assert gets(second, b"y", 2) | stays == {"0", "1", "2", "3"}
    assert moving(gateway, "events/waits") == 0
    assert not second.of(b"x"), "accepted before it moved"


def test_what_is_released_comes_again_on_the_link_that_has_the_partition_now(impatient: int) -> None:
    """The released event may return to the same link, or to another one."""
    first, producer = Sharer(impatient, "events/back"), Producer(impatient, "events/back")
    first.settles = False
    spread(producer, b"x", first)
    second = Sharer(impatient, "events/back")

    def knows_that_two_are_gone() -> bool:
        for partition in range(4):
            producer.send(b"y", partition=partition)
        while first.poll():
            pass
        return len(last_notification(first)) == 2

    wait_until(knows_that_two_are_gone, "the first link to give two partitions away")
    before, stays = len(first.came), last_notification(first)
    first.settles = True
    first.settle("released")
    moved = gets(second, b"x", 2)
    assert spread(producer, b"z", first, second) == [stays, moved]
    again = [partition for partition, body in first.came[before:] if body == b"x"]
    assert sorted(again) == sorted(stays), "each once more, and before what follows it"


def test_who_answers_nothing_keeps_a_partition_for_a_while_only(impatient: int) -> None:
    first, producer = Sharer(impatient, "events/stuck"), Producer(impatient, "events/stuck")
    first.settles = False
    spread(producer, b"x", first)
    second = Sharer(impatient, "events/stuck")
    assert len(gets(second, b"x", 2)) == 2, "what was not settled, sent again"
    first.settle()  # too late for those two, but harmless
    assert [len(each) for each in levelled(producer, first, second)] == [2, 2]


@pytest.mark.row("ES-4.5.1-8")
@pytest.mark.parametrize(("name", "value"), [(PARTITION, Symbol("0")), (EPOCH, Long(3))])
def test_nothing_can_be_named_where_links_are_bound_to_nothing(port: int, name: Symbol, value: Any) -> None:
    error = Member(port, "events/named", {GROUP: "g", name: value}).refused("amqp:not-allowed")
    assert "group_mode: shared" in error["description"]
    assert error["info"]["field"] == name


@pytest.mark.row("ES-4.5.1-2")
def test_more_links_than_partitions(port: int) -> None:
    links = [Sharer(port, "events/many") for _ in range(4)]
    Member(port, "events/many", requested_properties("g")).refused("amqp:link:detach-forced")
    links[0].close()
    Sharer(port, "events/many")
    waiting = [Sharer(port, "pend/stand") for _ in range(5)]
    Member(port, "pend/stand", requested_properties("g")).refused("amqp:resource-limit-exceeded")
    producer = Producer(port, "pend/stand")
    owners = waiting[:4]
    assert [len(each) for each in levelled(producer, *owners)] == [1, 1, 1, 1]
    assert not waiting[4].poll(0.2)
    owners[0].cut()
    levelled(producer, *waiting[1:])
    assert len(last_notification(waiting[4])) == 1


def test_a_group_is_not_bound_by_one_rule_and_shared_by_another(port: int) -> None:
    bound = Member(port, "bound/mixed", requested_properties("g"))
    bound.attached()
    error = Member(port, "events/mixed", requested_properties("g")).refused("amqp:resource-locked")
    assert "group_mode" in error["description"]
    Sharer(port, "events/mixed", "other").close()
    bound.close()
    shared = Sharer(port, "events/mixed")
    for partition in (None, 1):  # it would wait for ever, or fail because no epoch can displace the owner
        error = Member(port, "bound/mixed", requested_properties("g", partition)).refused("amqp:resource-locked")
        assert "group_mode" in error["description"]
    shared.close()
    Member(port, "bound/mixed", requested_properties("g")).attached()


def test_a_drain_ends_for_a_link_that_has_nothing(port: int) -> None:
    links = [Sharer(port, "pend/drain", credit=0) for _ in range(5)]
    links[4].peer.flow(0, link_credit=5, drain=True)
    assert links[4].peer.until("flow").link_credit == 0


# -- several processes, real brokers


@pytest.fixture
def places(start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis) -> list[Gateway]:
    redis_server.empty()
    found = []
    for _ in range(2):
        edge, http = ports(2)
        policy = POLICY.format(edge=edge, http=http, state=redis_server.url, kafka=kafka_broker.bootstrap)
        found.append(start_gateway(policy, env=shortened(OFTEN)))
    return found


@pytest.mark.row("ES-4.5.1-8", "ES-4.5.1-9", "ES-4.5-8")
def test_links_share_over_processes_and_a_killed_one_leaves_its_share(
    places: list[Gateway], kafka_broker: KafkaBroker
) -> None:
    topic = kafka_broker.create_topic(partitions=4)
    address, (here, there) = f"events/{topic}", (place.ports[0] for place in places)
    first, producer = Sharer(there, address), Producer(here, address)
    levelled(producer, first)
    second = Sharer(here, address)
    two = levelled(producer, first, second)
    assert [last_notification(first), last_notification(second)] == two
    places[1].kill()
    for partition in range(4):
        producer.send(b"after", partition=partition)
    gets(second, b"after", 4)
    assert last_notification(second) == {"0", "1", "2", "3"}


@pytest.mark.row("ES-4.5.1-9", "ES-4.6.5-2")
def test_new_partitions_are_dealt_to_the_links_that_are_there(places: list[Gateway], kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic(partitions=1)
    address, port = f"pend/{topic}", places[0].ports[0]
    first, second = Sharer(port, address), Sharer(places[1].ports[0], address)
    wait_until(lambda: group_state(places[0], address, "g")["owners"], "the group to have begun, with one partition")
    kafka_broker.grow(topic, 2)
    with kafka_broker.writing() as write:
        write(topic, b"early", partition=1)  # before any link can own the partition
    wait_until(lambda: first.poll() or second.poll(), "the event of the new partition")
    (taker,) = [sharer for sharer in (first, second) if sharer.came]
    assert (taker.told, taker.came) == ([("1",)], [("1", b"early")])

"""Groups over several gateway processes: leases in Redis, stopped and killed processes, shards (KM-10; ES-E2E-8)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol, decode
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.members import EPOCH, PARTITION, Member, Producer, keep_connected, requested_properties
from tests.support.amqp.peer import RECEIVER, SENDER
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.gateways import LEASE, GatewayPair, start_pair
from tests.support.gateway.groups import command, group_state, wait_for_waiting
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis

connections = pytest.fixture(autouse=True)(keep_connected)


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@pytest.fixture
def lease() -> float:
    """Lease duration in seconds; a test may override it by parametrization."""
    return LEASE


@pytest.fixture
def pair(own_redis: Redis, start_gateway: Gateways, kafka_broker: KafkaBroker, lease: float) -> GatewayPair:
    return start_pair(start_gateway, kafka_broker, own_redis, lease)


endless = pytest.mark.parametrize("lease", [2 * PATIENCE])
"""No lease expires during the test, so expiry cannot be the cause of its results."""
brief = pytest.mark.parametrize("lease", [5.0])
"""The test waits for the end of a lease."""


@pytest.fixture
def topic(pair: GatewayPair, kafka_broker: KafkaBroker) -> str:
    return create_topic(pair, kafka_broker, 3)


def create_topic(pair: GatewayPair, broker: KafkaBroker, partitions: int) -> str:
    """Create a topic and wait until both gateways know it; a busy broker may answer late."""
    topic = broker.create_topic(partitions=partitions)
    for port in (pair.a, pair.b):
        wait_until(lambda port=port: knows(port, topic), f"{topic} at {port}")
    return topic


def knows(port: int, topic: str) -> bool:
    """Whether a gateway already serves the topic."""
    with connected(port) as peer:
        peer.attach("knows", RECEIVER, source=frames.source(f"events/{topic}"))
        return peer.expect("attach").source is not None


def partition_owner(gateway: Gateway, address: str, partition: int) -> dict[str, Any]:
    """The gateway's record of the owner of a partition in group g1; nothing if there is none."""
    owners = group_state(gateway, address, "g1")["owners"]
    return next((owner for owner in owners if owner["partition"] == partition), {})


def wait_for_heir(gateway: Gateway, address: str, partition: int) -> None:
    """Wait until a link waits for the owner to end."""
    wait_until(lambda: partition_owner(gateway, address, partition).get("moving"), f"an heir of partition {partition}")


def alive(redis: Redis, member: str) -> bool:
    """Whether the session of a process has not expired, by the server's clock."""
    till = redis.command("ZSCORE", "scopegate:members", member)
    now = redis.command("TIME").split()
    return bool(till) and float(till) > int(now[0]) * 1000 + int(now[1]) // 1000


@contextmanager
def lasting(redis: Redis, member: str) -> Iterator[None]:
    """The session of a process that cannot renew it lasts for as long as this does, however long that takes."""
    till = redis.command("ZSCORE", "scopegate:members", member)
    redis.command("ZADD", "scopegate:members", f"{float(till) + 10 * 60_000:.0f}", member)
    yield
    redis.command("ZADD", "scopegate:members", till, member)


@pytest.mark.row("ES-4.5-8", "ES-4.5.2-4", "ES-4.5.2-5", "ES-4.5.2-1", "ES-4.5-7")
@endless
def test_an_epoch_counts_in_every_process(pair: GatewayPair, topic: str) -> None:
    owner = Member(pair.a, f"events/{topic}", requested_properties("g1", 0, 5))
    owner.attached(credit=10_000)
    Member(pair.b, f"events/{topic}", requested_properties("g1", 0, 5)).refused("amqp:resource-locked")
    Producer(pair.a, f"events/{topic}").send(*[b"x" * 60_000] * 20, partition=0)  # the owner reads none of it
    winner = Member(pair.b, f"events/{topic}", requested_properties("g1", 0, 6))
    assert winner.attached(credit=10).properties[EPOCH] == 6
    owner.ended("amqp:link:stolen")
    Producer(pair.a, f"events/{topic}").send(b"new", partition=0)
    winner.take(1)
    owner.quiet()


@pytest.mark.row("ES-4.5.1-3", "ES-4.5-8", "ES-4.5.1-1")
def test_a_freed_partition_goes_to_who_waits_longest_anywhere(pair: GatewayPair, topic: str) -> None:
    owners = [Member(port, f"pend/{topic}", requested_properties("g1")) for port in (pair.a, pair.b, pair.a)]
    assert {owner.attached().properties[PARTITION] for owner in owners} == {"0", "1", "2"}
    first = Member(pair.b, f"pend/{topic}", requested_properties("g1"))
    wait_for_waiting(pair.second, "g1", 1, f"pend/{topic}")
    second = Member(pair.a, f"pend/{topic}", requested_properties("g1"))
    wait_for_waiting(pair.first, "g1", 2, f"pend/{topic}")
    first.quiet()
    owners[0].close()
    assert first.attached().properties[PARTITION] == owners[0].partition
    second.quiet()
    pair.first.stop()
    third = Member(pair.b, f"pend/{topic}", requested_properties("g1"))
    third.attached()  # an orderly end of a gateway keeps nobody waiting


@brief
def test_a_killed_process_loses_its_partitions_after_the_lease(pair: GatewayPair, topic: str, own_redis: Redis) -> None:
    address = f"pend/{topic}"
    Member(pair.a, address, requested_properties("g1", 1, 4)).attached()
    dead = partition_owner(pair.second, address, 1)["process"]
    pair.first.kill()
    with lasting(own_redis, dead):
        Member(pair.b, address, requested_properties("g1", 1)).refused("amqp:resource-locked")
        heir = Member(pair.b, address, requested_properties("g1", 1, 5))
        wait_for_heir(pair.second, address, 1)
        heir.quiet()
    heir.attached()
    assert not alive(own_redis, dead)


@pytest.mark.row("ES-4.5-8")
@brief
def test_a_process_that_slept_sends_nothing_any_more(pair: GatewayPair, topic: str, own_redis: Redis) -> None:
    owner = Member(pair.a, f"events/{topic}", requested_properties("g1", 2))
    owner.attached(credit=1000)
    producer = Producer(pair.b, f"events/{topic}")
    producer.send(b"before", partition=2)
    owner.take(1)
    asleep = partition_owner(pair.second, f"events/{topic}", 2)["process"]
    pair.first.process.send_signal(signal.SIGSTOP)
    try:
        with lasting(own_redis, asleep):
            heir = Member(pair.b, f"events/{topic}", requested_properties("g1", 2, 1))
            wait_for_heir(pair.second, f"events/{topic}", 2)
            heir.quiet()  # the owner's end is not certain yet
        heir.attached(credit=1000)
        producer.send(*[b"after %d" % number for number in range(50)], partition=2)
        heir.take(50)
    finally:
        pair.first.process.send_signal(signal.SIGCONT)
    frame = owner.peer.receive()
    assert frame is not None
    assert (frame.kind, frame.error["condition"]) == ("detach", "amqp:link:detach-forced")
    again = Member(pair.a, f"events/{topic}", requested_properties("g1", 2, 2))
    again.attached()
    heir.ended("amqp:link:stolen")


@brief
def test_without_redis_groups_end_and_the_rest_goes_on(pair: GatewayPair, topic: str, own_redis: Redis) -> None:
    owner = Member(pair.a, f"events/{topic}", requested_properties("g1", 0))
    owner.attached(credit=10)
    plain = Member(pair.a, f"events/{topic}", {})
    plain.attached(credit=10)
    former = partition_owner(pair.second, f"events/{topic}", 0)["process"]
    own_redis.kill()
    owner.ended("amqp:link:detach-forced")
    error = Member(pair.b, f"events/{topic}", requested_properties("g1", 1)).refused("amqp:internal-error")
    assert "is unavailable" in error["description"]
    status, text = pair.first.get("/readyz")
    assert (status, json.loads(text)["parts"]["groups"]["ready"]) == (503, False)
    Producer(pair.a, f"events/{topic}").send(b"x", partition=0)
    plain.take(1)
    own_redis.start()
    wait_until(lambda: pair.first.is_ready() and pair.second.is_ready(), "ready again")
    wait_until(lambda: not alive(own_redis, former), "the former session to be over for everybody")
    Member(pair.b, f"events/{topic}", requested_properties("g1", 0)).attached()


@pytest.mark.row("ES-4-13", "ES-4.5.1-5", "ES-4.5.1-7")
def test_any_process_can_have_partitions_dealt_anew(pair: GatewayPair, topic: str) -> None:
    mine, chosen = (
        Member(pair.a, f"events/{topic}", requested_properties("g1")),
        Member(pair.a, f"events/{topic}", requested_properties("g1", 2)),
    )
    mine.attached()
    chosen.attached()
    found = group_state(pair.second, f"events/{topic}", "g1")
    assert [(owner["partition"], owner["here"]) for owner in found["owners"]] == [(0, False), (2, False)]
    done = command(pair.second, "--address", f"events/{topic}", "--group", "g1", "--rebalance", "--json")
    assert done.returncode == 0, done.stderr
    mine.ended("amqp:link:detach-forced")
    chosen.quiet()


@pytest.mark.row("ES-4.5.1-5", "ES-4.5.1-7")
def test_more_partitions_are_dealt_out(pair: GatewayPair, kafka_broker: KafkaBroker) -> None:
    topic = create_topic(pair, kafka_broker, 1)
    assigned = Member(pair.a, f"pend/{topic}", requested_properties("g1"))
    assigned.attached()
    waiting = Member(pair.b, f"pend/{topic}", requested_properties("g1"))
    wait_for_waiting(pair.second, "g1", 1, f"pend/{topic}")
    waiting.quiet()
    kafka_broker.grow(topic, 2)
    with kafka_broker.writing() as write:
        write(topic, b"early", partition=1)
    assigned.ended("amqp:link:detach-forced")
    waiting.attached()
    again = Member(pair.b, f"pend/{topic}", requested_properties("g1"))
    again.attached()
    assert {waiting.partition, again.partition} == {"0", "1"}
    newer = waiting if waiting.partition == "1" else again
    newer.peer.flow(0, link_credit=1)
    assert [(partition, offset) for partition, offset, _ in newer.take(1)] == [("1", 0)]  # KM-9: added since


def test_who_waits_for_a_log_that_is_deleted_is_told(pair: GatewayPair, kafka_broker: KafkaBroker) -> None:
    topic = create_topic(pair, kafka_broker, 1)
    member = Member(pair.a, f"pend/{topic}", requested_properties("g1"))
    member.attached()
    late = Member(pair.b, f"pend/{topic}", requested_properties("g1"))
    wait_for_waiting(pair.second, "g1", 1, f"pend/{topic}")
    late.quiet()
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_topics([topic])[topic].result(PATIENCE)
    late.peer.expect("attach", source=None)
    # Its process may hear of the free partition before it hears that there is none, or while Kafka still deletes it.
    told = late.peer.expect("detach", closed=True).error["condition"]
    assert told in ("amqp:resource-deleted", "amqp:not-found", "amqp:internal-error")
    member.ended("amqp:resource-deleted")


# -- shards


def redirect(port: int, address: str, partition: int, role: bool, group: str | None = None) -> dict[Any, Any] | None:
    """Attach to a partition; return the redirect's fields, or None if it is served here."""
    peer = connected(port)
    source = frames.source(address if role else None)
    target = frames.target(None if role else address)
    peer.attach("l", role, source=source, target=target, properties=requested_properties(group, partition))
    answer = peer.expect("attach")
    if (answer.source if role else answer.target) is not None:
        assert answer.properties[PARTITION] == str(partition)
        peer.disconnect()
        return None
    error = peer.expect("detach", closed=True, error="amqp:link:redirect").error
    peer.disconnect()
    return dict(error["info"])


def create_spread_topic(pair: GatewayPair, broker: KafkaBroker, partitions: int) -> str:
    """Create topics until each gateway serves a partition of one: a topic's name decides who serves which."""
    for _ in range(20):  # one gateway has all six partitions of one topic in 32
        topic = create_topic(pair, broker, partitions)
        here = {redirect(pair.a, f"sharded/{topic}", each, RECEIVER) is None for each in range(partitions)}
        if len(here) == 2:
            return topic
    pytest.fail("one gateway serves all partitions of each of 20 topics")


@pytest.mark.row("ES-4-2", "ES-4-7", "CORE-8")
def test_each_partition_is_served_in_one_place(pair: GatewayPair, kafka_broker: KafkaBroker) -> None:
    topic = create_spread_topic(pair, kafka_broker, 12)
    address = f"sharded/{topic}"
    homes: dict[int, set[int]] = {pair.a: set(), pair.b: set()}
    for partition in range(12):
        for here, there in ((pair.a, pair.b), (pair.b, pair.a)):
            said = [redirect(here, address, partition, role) for role in (RECEIVER, SENDER)]
            said.append(redirect(here, address, partition, RECEIVER, f"g-{here}"))
            assert said[0] == said[1] == said[2]
            if said[0] is None:
                homes[here].add(partition)
                continue
            info = said[0]
            assert info == {
                "hostname": "127.0.0.1", "network-host": "127.0.0.1", "port": there, "address": address,
            }  # fmt: skip
            assert redirect(int(info["port"]), info["address"], partition, RECEIVER) is None
    assert homes[pair.a] | homes[pair.b] == set(range(12))
    assert not homes[pair.a] & homes[pair.b]
    assert homes[pair.a]
    assert homes[pair.b]
    for port, mine in homes.items():
        assigned = [Member(port, address, {}) for _ in range(len(mine))]
        assert {int(member.attached().properties[PARTITION]) for member in assigned} == mine
        info = Member(port, f"{address}/$info", {})
        info.attached(credit=1)
        body, _ = decode(info.peer.until("transfer").payload)
        assert len(body.value["partitions"]) == 12


@pytest.mark.row("ES-4-7")
def test_members_find_free_partitions_in_other_shards(pair: GatewayPair, kafka_broker: KafkaBroker) -> None:
    topic = create_spread_topic(pair, kafka_broker, 6)
    address, got, port, sent = f"sharded/{topic}", set(), pair.a, 0
    while len(got) < 6:
        member = Member(port, address, requested_properties("g1"))
        answer = member.peer.expect("attach")
        if answer.source is not None:
            got.add(answer.properties[Symbol("event-streams-partition")])
            continue
        info = member.peer.expect("detach", error="amqp:link:redirect").error["info"]
        port, sent = int(info["port"]), sent + 1
        assert sent == 1
    assert (got, port) == ({str(number) for number in range(6)}, pair.b)
    Member(pair.b, address, requested_properties("g1")).refused("amqp:link:detach-forced")


@brief
def test_what_a_killed_process_served_is_served_elsewhere(pair: GatewayPair, topic: str) -> None:
    address = f"sharded/{topic}"
    pair.first.kill()
    wait_until(
        lambda: all(redirect(pair.b, address, each, RECEIVER) is None for each in range(3)), "all at the second"
    )

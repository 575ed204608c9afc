"""Several transactions of one link that end in any order: each input is consumed once all the same (decision 105)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.amqp.messages import sections
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.consumer import StoredConsumer
from tests.support.transactions.controller import in_transaction
from tests.support.transactions.topics import committed

KINDS = ("durable", "group")
ENDS = ("detach", "kill")


def of(numbers: Iterable[int]) -> list[bytes]:
    return [b"of %d" % number for number in numbers]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_event_that_was_committed_before_an_earlier_one_does_not_come_again(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str, how: str
) -> None:
    """One of the earlier ones is settled in an open transaction, the other one has no outcome: both come again.

    Later links remember it, whatever they do: the first one does nothing, the second one commits an event itself.
    """
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, kind)
    events = consumer.feed(*range(5))
    consumer.settled(events[0])
    consumer.commit(consumer.settled(events[1], events[3], settled=False))
    consumer.resumed(how, 0, 2, 4)
    first, *_ = consumer.resumed(how, 0, 2, 4)
    consumer.commit(consumer.settled(first))
    left = consumer.resumed(how, 2, 4)
    consumer.commit(consumer.settled(*left))
    consumer.write(5)
    consumer.resumed(how, 5)
    assert sorted(consumer.made) == of(range(5))


@pytest.mark.parametrize("kind", KINDS)
def test_commits_at_the_same_time_are_all_in_the_position(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str
) -> None:
    """The gateway dies before it has written the position itself."""
    consumer, size = StoredConsumer(start_gateway, kafka_broker, redis_server, kind), 5
    for at in (0, size, 2 * size):
        numbers = range(at, at + size)
        events = consumer.feed(*numbers)
        consumer.commit(*[consumer.settled(events[each]) for each in (3, 0, 4, 1, 2)])
        consumer.end("kill")
        consumer.attach()
    consumer.write(99)
    consumer.resumed("detach", 99)
    assert sorted(consumer.made) == sorted(of(range(3 * size)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_events_of_a_rollback_come_again_after_a_later_commit(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str
) -> None:
    """On the link itself, and what is committed then is in the position."""
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, kind)
    events = consumer.feed(0, 1, 2)
    undone = consumer.settled(events[1])
    consumer.commit(consumer.settled(events[0], events[2]))
    assert consumer.controller.discharge(undone, fail=True).matches("accepted")
    again = consumer.inbox.transfer()
    assert sections(again.payload)["data"] == b"1"
    consumer.commit(consumer.settled(again))
    consumer.write(3)
    consumer.resumed("kill", 3)
    assert sorted(consumer.made) == of(range(3))


def test_an_event_that_two_transactions_settle_is_consumed_by_one(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis
) -> None:
    """It is unsettled until one of them is committed; both are discharged at the same time."""
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, "durable")
    for number in range(5):
        (event,) = consumer.feed(number)
        both = [consumer.settled(event, settled=False) for _ in range(2)]
        discharges = [consumer.controller.discharging(each) for each in both]
        ends = [consumer.controller.outcome(each) for each in discharges]
        assert sorted(each.name for each in ends) == ["accepted", "rejected"]
        (refused,) = [each["error"] for each in ends if each.name == "rejected"]
        assert refused["condition"] == "amqp:transaction:rollback"
        assert "has its outcome already" in refused["description"]
    assert consumer.made == of(range(5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_is_attached_again_has_no_part_in_open_transactions(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str
) -> None:
    """What was settled on the link before comes again on the same connection, and its transaction cannot commit."""
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, kind)
    events = consumer.feed(0, 1)
    late, done = consumer.settled(events[0]), consumer.settled(events[1])
    consumer.commit(done)
    consumer.attach_link_again()
    again = consumer.inbox.transfer()
    assert sections(again.payload)["data"] == b"0"
    now = consumer.settled(again)
    refused = consumer.controller.discharge(late)["error"]
    assert refused["condition"] == "amqp:transaction:rollback"
    consumer.commit(now)
    consumer.write(2)
    consumer.resumed("detach", 2)
    assert consumer.made == of((1, 0))


@pytest.mark.parametrize("end", ["commit", "roll back", "think better of it"])
def test_a_dead_letter_is_a_part_of_the_transaction(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, end: str
) -> None:
    """Kafka has it before the discharge, and readers of committed records see it with the rest, once (decision 106)."""
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, "durable", dead_letter="{topic}.dead")
    letters = kafka_broker.create_topic(f"{consumer.topic}.dead")

    def seen(isolation: str = "read_committed") -> list[bytes]:
        return committed(kafka_broker.bootstrap, letters, isolation)

    (event,) = consumer.feed(0)
    txn_id = consumer.controller.declare()
    consumer.settle(txn_id, event, outcome="rejected", settled=False)
    wait_until(lambda: seen("read_uncommitted") == [b"0"], "the dead letter")
    last = "accepted" if end == "think better of it" else "rejected"
    consumer.peer.disposition(event.delivery_id, in_transaction(txn_id, last))
    outcome = consumer.controller.discharge(txn_id, fail=end == "roll back")
    assert outcome.matches("rejected" if last == "accepted" else "accepted")
    consumer.write(1)
    consumer.resumed("kill", *((1,) if end == "commit" else (0, 1)))
    assert (seen(), consumer.made) == (([b"0"], of([0])) if end == "commit" else ([], []))

"""What is `accepted` stays: the gateway killed, Kafka killed, both under load (issue 3, section 7)."""

from __future__ import annotations

import asyncio
import signal
from itertools import chain

from tests.support.amqp.numbered import NumberedReceiver, NumberedSender, attach, stored, until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.kafka import KafkaBroker

MANY, LAST = 30_000, 1_000
PARTITIONS = range(2)


def streams(bootstrap: str, credit: int) -> Document:
    document = Document()
    document.kafka(bootstrap)
    document.scope()["addresses"][-1]["credit"] = credit
    return document


def signal_to(broker: KafkaBroker, number: signal.Signals) -> None:
    assert broker.process is not None
    broker.process.send_signal(number)


async def hold(gateway: Gateway, sender: NumberedSender, count: int) -> None:
    """Let the sender send so many more; return when the gateway has at least so many without an outcome."""
    sender.limit += count
    sender.pump()
    unsettled = ("scopegate_unsettled", lambda value: value >= count, 60.0)
    await asyncio.get_running_loop().run_in_executor(None, gateway.wait_metric, *unsettled)


async def kill_in_the_middle(broker: KafkaBroker, gateway: Gateway, sender: NumberedSender) -> None:
    """Kill the gateway while it settles what it has of MANY; of the LAST it can have settled none.

    Kafka stands still twice: until the gateway has all of MANY, and from the 10,000th outcome on,
    because a gateway may have settled everything before a slow client has read so many.
    """
    signal_to(broker, signal.SIGSTOP)
    try:
        await hold(gateway, sender, MANY)
        sender.at = (10_000, lambda: signal_to(broker, signal.SIGSTOP))
        signal_to(broker, signal.SIGCONT)
        await until(lambda: sender.outcomes >= 10_000, "a third of the outcomes")
        await hold(gateway, sender, LAST)
        gateway.kill()
    finally:
        signal_to(broker, signal.SIGCONT)


async def test_a_killed_gateway_loses_nothing_it_accepted(
    start_gateway: Gateways, own_kafka: KafkaBroker
) -> None:
    topic = own_kafka.create_topic(partitions=len(PARTITIONS))
    document = streams(own_kafka.bootstrap, 1 + MANY + LAST)
    gateway = start_gateway(document.text)
    sender = await attach(NumberedSender(f"events/{topic}", 1), document.edge)
    sender.pump()
    await until(lambda: sender.outcomes == 1, "all that the gateway asks of Kafka once")
    await kill_in_the_middle(own_kafka, gateway, sender)
    await until(lambda: sender.trouble, "the connection to be lost")
    accepted = sender.of("accepted")
    assert len(accepted) == sender.outcomes <= 1 + MANY < sender.sent
    gateway.restart()
    found = stored(own_kafka.bootstrap, topic, PARTITIONS)
    everything = list(chain(*found.values()))
    assert accepted <= set(everything)
    assert len(everything) == len(set(everything))
    assert all(numbers == sorted(numbers) for numbers in found.values())
    print(f"{len(accepted)} accepted, {len(everything)} in the topic, {sender.sent} sent")
    again = await attach(NumberedSender(f"events/{topic}", 1000), document.edge)
    again.pump()
    await until(lambda: again.outcomes == 1000, "the gateway to go on as before")
    assert again.of("accepted") == set(range(1000))


async def test_a_killed_broker_loses_nothing_that_was_accepted(
    start_gateway: Gateways, own_kafka: KafkaBroker
) -> None:
    topic, other = own_kafka.create_topic(partitions=len(PARTITIONS)), own_kafka.create_topic()
    document = streams(own_kafka.bootstrap, 1000)
    gateway = start_gateway(document.text)
    receiver = await attach(NumberedReceiver(f"events/{topic}"), document.edge)
    sender = await attach(NumberedSender(f"events/{topic}", 20_000), document.edge)
    sender.pump()
    await until(lambda: sender.outcomes > 5000 and len(receiver.numbers) > 1000, "traffic")
    own_kafka.kill()
    loop = asyncio.get_running_loop()
    await until(lambda: not gateway.is_ready(), "the gateway to notice")
    late = await attach(NumberedSender(f"events/{other}", 10), document.edge)
    late.pump()
    await until(lambda: late.outcomes == 10, "outcomes while Kafka is away")
    assert late.of("released") == set(range(10))
    await loop.run_in_executor(None, own_kafka.start)
    await until(gateway.is_ready, "the gateway to be ready again")
    before = len(sender.of("accepted"))
    sender.limit = 1 << 60
    sender.pump()
    await until(lambda: len(sender.of("accepted")) >= before + 5000, "the link to go on")
    sender.limit = sender.sent
    await until(lambda: sender.outcomes == sender.sent, "an outcome for every message")
    assert not sender.trouble
    assert stored(own_kafka.bootstrap, other, [0]) == {0: []}
    found = stored(own_kafka.bootstrap, topic, PARTITIONS)
    everything = list(chain(*found.values()))
    counts = {name: len(sender.of(name)) for name in ("accepted", "released", "modified", "rejected")}
    print(counts, f"{len(everything)} in the topic")
    assert sender.of("accepted") <= set(everything)
    assert not sender.of("released") & set(everything)  # released says: certainly not written
    assert counts["rejected"] == 0
    assert len(everything) == len(set(everything))
    assert all(numbers == sorted(numbers) for numbers in found.values())
    await until(lambda: len(receiver.numbers) >= len(everything), "the consumer to catch up")
    assert not receiver.trouble
    for numbers in found.values():
        mine = set(numbers)
        assert [number for number in receiver.numbers if number in mine] == numbers

"""What is `accepted` stays: the gateway killed, Kafka killed, both under load (issue 3, section 7)."""

from __future__ import annotations

import asyncio
import signal
from itertools import chain

from tests.support.amqp.numbered import NumberedReceiver, NumberedSender, attach, stored, until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.kafka import KafkaBroker

MANY = 30_000
PARTITIONS = range(2)


def streams(bootstrap: str, credit: int) -> Document:
    document = Document()
    document.kafka(bootstrap)
    document.scope()["addresses"][-1]["credit"] = credit
    return document


async def while_still(broker: KafkaBroker, gateway: Gateway, sender: NumberedSender) -> None:
    """Let the sender have MANY without an outcome, which takes a broker that stands still for a moment."""
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    try:
        sender.limit += MANY
        sender.pump()
        unsettled = ("scopegate_unsettled", lambda value: value == MANY, 60.0)
        await asyncio.get_running_loop().run_in_executor(None, gateway.wait_metric, *unsettled)
    finally:
        broker.process.send_signal(signal.SIGCONT)


async def test_a_killed_gateway_loses_nothing_it_accepted(
    start_gateway: Gateways, own_kafka: KafkaBroker
) -> None:
    topic = own_kafka.create_topic(partitions=len(PARTITIONS))
    document = streams(own_kafka.bootstrap, MANY + 1)
    gateway = start_gateway(document.text)
    sender = await attach(NumberedSender(f"events/{topic}", 1), document.edge)
    sender.at = (10_000, gateway.kill)
    sender.pump()
    await until(lambda: sender.outcomes == 1, "all that the gateway asks of Kafka once")
    await while_still(own_kafka, gateway, sender)
    await until(lambda: sender.trouble, "the connection to be lost")
    accepted = sender.of("accepted")
    assert len(accepted) == sender.outcomes < MANY
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

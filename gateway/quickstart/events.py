"""Chapters 2 and 3: a Kafka topic as an AMQP address, read over AMQP and Kafka, and its `$info` (ES 5, 6)."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from proton import Connection, Described, Message, symbol
from proton.reactor import Filter

from gateway.amqp.message.sections import SectionOffsets, body_values, delivery_annotations, walk
from gateway.filters.position.event_stream import EARLIEST, FILTER_NAME, OFFSET, TIMESTAMP
from gateway.quickstart.checks import Checks, StepFailed, attempt
from gateway.quickstart.clients import ACCEPTED, Clients
from gateway.quickstart.kafka import KafkaError, Read, read_topic
from gateway.quickstart.ports import EDGE, Ports
from gateway.quickstart.terminal_output import TerminalOutput

COUNT: Final = 10_000
ADDRESS: Final = "events/orders"
TOPIC: Final = "orders"
_INFO: Final = ADDRESS + "/$info"
_PARTITION: Final = "event-streams-source-partition"
_KEY: Final = "event-streams-group-key"
_CUSTOMERS: Final = 100
_MAX_CLOCK_SKEW: Final = 3600


class SentEvents(NamedTuple):
    """An event as its producer sent it."""

    key: str
    body: bytes
    message: bytes


class SampleEvent(NamedTuple):
    """An event as received over AMQP."""

    partition: int
    offset: int
    timestamp: int
    number: int
    message: bytes
    layout: SectionOffsets


def show(place: Ports, bootstrap: str, screen: TerminalOutput, checks: Checks) -> None:
    """Send the events, read them back over AMQP, read them with Kafka, ask `$info`."""
    screen.heading("2  A Kafka topic is an AMQP address")
    events = [_order(number) for number in range(COUNT)]
    with Clients() as clients:
        edge = clients.connect(place.edge)
        _produce(clients, edge, events, screen, checks)
        seen = _consume(clients, edge, events, screen, checks)
        _read_with_kafka(bootstrap, events, seen, screen, checks)
        screen.heading("3  The topic tells about itself")
        _ask_info(clients, edge, seen, screen, checks)


def _order(number: int) -> SentEvents:
    key = f"customer-{number % _CUSTOMERS:02}"
    body = json.dumps({"order": number, "customer": key, "pounds": 1 + number % 7}).encode()
    message = Message(body=body, inferred=True, content_type="application/json", annotations={symbol(_KEY): key})
    return SentEvents(key, body, message.encode())


# -- in


def _produce(
    clients: Clients, edge: Connection, events: list[SentEvents], screen: TerminalOutput, checks: Checks
) -> None:
    screen.say(f"An AMQP producer in scope {EDGE}; each event names its customer in the annotation {_KEY}.")
    sender = clients.sender(edge, ADDRESS)
    screen.step("producer", ADDRESS, f"{COUNT:,} events such as {events[1].body.decode()}")
    begin = time.monotonic()
    outcomes = Counter(sender.send_all([event.message for event in events]))
    seconds = time.monotonic() - begin
    checks.equal(
        f"{COUNT:,} accepted, each after Kafka's acknowledgement ({COUNT / seconds:,.0f} a second)",
        dict(outcomes), {ACCEPTED: COUNT},
    )  # fmt: skip


# -- out


def _consume(
    clients: Clients, edge: Connection, events: list[SentEvents], screen: TerminalOutput, checks: Checks
) -> list[SampleEvent]:
    screen.step("consumer", ADDRESS, f'a receiver with the filter {OFFSET}: "{EARLIEST}"')
    wanted = Described(symbol(FILTER_NAME), {symbol(OFFSET): symbol(EARLIEST)})
    receiver = clients.receiver(edge, ADDRESS, options=[Filter({symbol("start"): wanted})])
    begin = time.monotonic()
    messages = receiver.take_all(COUNT, f"events from {ADDRESS}")
    seconds = time.monotonic() - begin
    receiver.close()
    seen = [_event(message) for message in messages]
    _show_partitions(seen, screen)
    numbers = Counter(event.number for event in seen)
    checks.equal(f"all of them came back, each once ({COUNT / seconds:,.0f} a second)", numbers, Counter(range(COUNT)))
    checks.nothing("byte for byte, keys and all", _changed(events, seen), expected="the message that was sent")
    checks.nothing("in order in every partition, no offset left out", _disorder(seen), expected="the order of sending")
    checks.nothing("each with the time Kafka gave it", _wrong_times(seen), expected="a time about now")
    return seen


def _event(message: bytes) -> SampleEvent:
    layout = walk(message)
    annotations = delivery_annotations(message, layout)
    try:
        partition, offset = int(annotations[_PARTITION]), int(annotations[OFFSET])
        number = json.loads(body_values(message, layout)[0])["order"]
        return SampleEvent(partition, offset, int(annotations[TIMESTAMP]), number, message, layout)
    except (KeyError, TypeError, ValueError) as error:
        expected = f"annotations {_PARTITION}, {OFFSET} and {TIMESTAMP}"
        raise StepFailed("every event is annotated", expected, annotations) from error


def _show_partitions(seen: list[SampleEvent], screen: TerminalOutput) -> None:
    rows = []
    for partition, events in _by_partition(seen):
        first, last = events[0], events[-1]
        times = f"{_clock(first.timestamp)} to {_clock(last.timestamp)}"
        rows.append((str(partition), f"{len(events):,}", str(first.offset), str(last.offset), times))
    screen.table(rows, ("partition", "events", "first offset", "last offset", "timestamps (UTC)"))


def _clock(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _by_partition(seen: list[SampleEvent]) -> list[tuple[int, list[SampleEvent]]]:
    """The events of each partition in the order in which they came."""

    def partition(event: SampleEvent) -> int:
        return event.partition

    return [(number, list(events)) for number, events in groupby(sorted(seen, key=partition), partition)]


def _changed(events: list[SentEvents], seen: list[SampleEvent]) -> list[str]:
    faults = []
    for event in seen:
        sent = events[event.number].message
        if event.message[event.layout.ma :] != sent[walk(sent).ma :]:
            faults.append(f"event {event.number}: {event.message!r}")
    return faults


def _disorder(seen: list[SampleEvent]) -> list[str]:
    faults = []
    for partition, events in _by_partition(seen):
        for one, next_ in pairwise(events):
            if next_.offset != one.offset + 1 or next_.number <= one.number:
                faults.append(
                    f"partition {partition}: event {next_.number} at {next_.offset} after {one.number} at {one.offset}"
                )
    return faults


def _wrong_times(seen: list[SampleEvent]) -> list[str]:
    now = time.time()
    late = (event for event in seen if abs(event.timestamp / 1000 - now) > _MAX_CLOCK_SKEW)
    return [f"event {event.number}: {event.timestamp}" for event in late]


def _read_with_kafka(
    bootstrap: str, events: list[SentEvents], seen: list[SampleEvent], screen: TerminalOutput, checks: Checks
) -> None:
    screen.step("Kafka consumer", f"topic {TOPIC}", f"confluent_kafka.Consumer at {bootstrap}")
    records = attempt(
        "an ordinary Kafka consumer reads the topic", f"{COUNT} records",
        lambda: read_topic(bootstrap, TOPIC, COUNT), KafkaError,
    )  # fmt: skip
    expected = {
        (event.partition, event.offset): Read(events[event.number].key.encode(), events[event.number].body)
        for event in seen
    }
    wrong = [f"{place}: {records.get(place)}" for place in expected if records.get(place) != expected[place]]
    checks.nothing(
        f"{len(records):,} records: the same bodies and keys at the same offsets", wrong,
        expected="the body and key that were sent",
    )  # fmt: skip


# -- about


def _ask_info(
    clients: Clients, edge: Connection, seen: list[SampleEvent], screen: TerminalOutput, checks: Checks
) -> None:
    screen.step("consumer", _INFO, "one message, please")
    info = body_values(*_walked(clients.receiver(edge, _INFO).take(f"a message from {_INFO}")))[0]
    about = {key: info.get(key) for key in ("address", "partition-count", "timestamp-type")}
    screen.table([(key, str(value)) for key, value in about.items()])
    screen.gap()
    found = {(str(each["partition"]), each["earliest-offset"], each["latest-offset"]) for each in info["partitions"]}
    rows = [tuple("-" if text is None else str(text) for text in row) for row in sorted(found, key=str)]
    screen.table(rows, ("partition", "earliest-offset", "latest-offset"))
    expected = {
        (str(partition), f"{events[0].offset:020}", f"{events[-1].offset:020}")
        for partition, events in _by_partition(seen)
    }
    checks.nothing(
        "it says what the consumer saw", [str(row) for row in sorted(expected - found)],
        expected="first and last offset of each partition",
    )  # fmt: skip
    checks.equal(f"of {ADDRESS}", (info["address"], info["partition-count"]), (ADDRESS, len(found)))


def _walked(message: bytes) -> tuple[bytes, SectionOffsets]:
    return message, walk(message)

"""Pure parts of the Kafka bridge: edits of an event, partition names, what errors mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.admin.client import Bounds, Topic
from bridges.kafka.common import errors, partitions
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.consume.filters.access import EventAccess, PlainAccess
from bridges.kafka.info import describe
from bridges.kafka.links.event_edits import ASSOCIATED, GAP, redelivered, with_gap, with_partitions
from bridges.kafka.links.terminus_request import durable_terminus
from bridges.kafka.records.cloudevents import event_header
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.ttl import expired, ttl, with_remaining_ttl
from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.types import Int, Long, Symbol, Timestamp, Uint, Ulong
from gateway.amqp.link.outcomes import FAILED, RELEASED, Rejected
from gateway.amqp.message import sections
from gateway.errors import (
    INTERNAL_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from gateway.filters.evaluate.access import ABSENT
from gateway.filters.predicate import MessageSection
from tests.support.amqp.direct import steps
from tests.support.amqp.messages import message

ANNOTATIONS = st.none() | st.dictionaries(
    st.sampled_from(["x-opt-a", "x-opt-b", ASSOCIATED, GAP]), st.integers(0, 9)
)
MESSAGES = st.builds(
    message,
    st.binary(max_size=20),
    header=st.none() | st.just([True, 5]) | st.just([None, None, None, False, 7]),
    da=ANNOTATIONS,
    ma=ANNOTATIONS,
    app=st.none() | st.just({"k": "v"}),
)


def bare(data: bytes) -> bytes:
    return data[sections.walk(data).bare :]


@given(MESSAGES)
def test_edits_leave_the_bare_message_alone(data: bytes) -> None:
    event = EncodedEvent(data, 0, 1)
    change = sections.annotations_section(0x72, {"x-opt-c": b"\x41"})[3:]
    for edited in (
        with_partitions(data, (0, 1)),
        with_gap(data),
        redelivered(event, failed=True).data,
        redelivered(event, failed=True, annotations=change).data,
    ):
        assert bare(edited) == bare(data)
    assert redelivered(event, failed=False).data == data


@given(MESSAGES)
def test_what_an_edit_says(data: bytes) -> None:
    edited = with_partitions(with_gap(data), (0, 1, 2))
    layout = sections.walk(edited)
    named = sections.delivery_annotations(edited, layout)[ASSOCIATED]
    assert (named.kind, named.items) == ("symbol", ("0", "1", "2"))
    assert sections.message_annotations(edited, layout)[GAP] is True


@given(MESSAGES, st.lists(st.booleans(), max_size=5))
def test_only_failures_count(data: bytes, fates: list[bool]) -> None:
    event = EncodedEvent(data, 0, 1)
    for failed in fates:
        event = redelivered(event, failed=failed)
    assert (event.attempts, event.failures) == (len(fates), sum(fates))
    if any(fates):
        header = sections.header(event.data, sections.walk(event.data))
        original = sections.header(data, sections.walk(data))
        assert header[4] == sum(fates)
        assert header[: len(original)][:4] == original[:4]


@given(MESSAGES)
def test_annotations_of_a_modified_outcome_are_merged(data: bytes) -> None:
    change = encode({Symbol("x-opt-a"): 10, Symbol("x-opt-c"): "new"})
    edited = redelivered(EncodedEvent(data, 0, 1), failed=False, annotations=change).data
    before = sections.message_annotations(data, sections.walk(data)) or {}
    after = sections.message_annotations(edited, sections.walk(edited))
    assert after == {**before, "x-opt-a": 10, "x-opt-c": "new"}


@given(
    st.text(max_size=12) | st.integers(0, 60).map(str) | st.integers() | st.none() | st.binary(max_size=3),
    st.integers(1, 50),
)
def test_a_partition_is_its_decimal_index_or_an_error(value: Any, count: int) -> None:
    if value in {str(index) for index in range(count)}:
        assert str(partitions.number(value, count, "f")) == value
        return
    with pytest.raises(AmqpError) as refused:
        partitions.number(value, count, "f")
    assert refused.value.condition == (NOT_FOUND if isinstance(value, str) else INVALID_FIELD)


EXPIRIES = ["link-detach", "session-end", "connection-close", "never"]


@pytest.mark.parametrize(
    ("durable", "expiry", "timeout", "ttl"),
    [
        (2, "never", 0, None),
        (2, "never", 5, None),
        (1, "link-detach", 5, 5000),
        (2, "connection-close", 1, 1000),
        (2, "link-detach", 0, "nothing"),
        (0, "never", 5, "nothing"),
    ],
)
def test_what_outlives_its_link(durable: int, expiry: str, timeout: int, ttl: int | str | None) -> None:
    source = SimpleNamespace(durable=durable, expiry=EXPIRIES.index(expiry), timeout=timeout)
    engine = SimpleNamespace(remote_container="c")
    of_link = {"scope": "s", "user": "u", "name": "l", "offset_group": None}
    requested = durable_terminus(SimpleNamespace(source=source, engine=engine, **of_link), "n", {})
    assert ("nothing" if requested is None else requested.ttl_ms) == ttl


@pytest.mark.parametrize(
    ("name", "header"), [("cloudEvents:type", "ce_type"), ("color", "color"), ("ce_type", None)]
)
def test_the_header_of_an_application_property_of_a_cloud_event(name: str, header: str | None) -> None:
    assert event_header(name) == header


@pytest.mark.parametrize("access", [PlainAccess(), EventAccess()])
@pytest.mark.parametrize(
    ("section", "names", "expected"),
    [
        (MessageSection.APPLICATION_PROPERTIES, ("color", "event-streams-offset", "none"), ["red", "7", ABSENT]),
        (MessageSection.DELIVERY_ANNOTATIONS, ("event-streams-offset", "color"), [f"{7:020}", ABSENT]),
    ],
)
def test_names_that_come_and_go_are_read_like_those_that_stay(
    access: Any, section: MessageSection, names: tuple[str, ...], expected: list[Any]
) -> None:
    record = SimpleNamespace(offset=lambda: 7)
    source = ({"color": b"red", "event-streams-offset": b"7"}, record)
    assert list(access.reader(section, names)(source)) == expected
    entries, values = access.entries(section), [ABSENT] * len(names)
    for slot, name in enumerate(names):
        entries.add(name, slot)
    entries.read(source, values)
    assert values == expected


TOPIC = Topic("t", 2)


@pytest.mark.parametrize(
    ("topic", "ours"),
    [
        (TOPIC, {}),
        (TOPIC._replace(append_time=True), {"timestamp-type": "append"}),
        (TOPIC._replace(append_time=False, identity="x"), {"timestamp-type": "create", "log-id": "x"}),
    ],
)
def test_what_a_log_tells_of_itself(topic: Topic, ours: dict[str, str]) -> None:
    found = describe("log", topic, {0: Bounds(3, 7), 1: Bounds(5, 5)})
    full = {"partition": "0", "earliest-offset": f"{3:020}", "latest-offset": f"{6:020}", "next-offset": f"{7:020}"}
    empty = {"partition": "1", "earliest-offset": None, "latest-offset": None, "next-offset": f"{5:020}"}
    assert found == {"address": "log", "partition-count": 2, "partitions": [full, empty], **ours}


def test_a_log_that_nobody_has_seen_has_its_main_partition() -> None:
    nothing = {"partition": "0", "earliest-offset": None, "latest-offset": None}
    assert describe("log", None, {}) == {"address": "log", "partition-count": 1, "partitions": [nothing]}


def test_groups_are_refused() -> None:
    partitions.refuse_group({})
    with pytest.raises(AmqpError) as refused:
        partitions.refuse_group({Symbol("event-streams-consumer-group"): "g"})
    assert refused.value.condition == NOT_IMPLEMENTED


@pytest.mark.parametrize(
    ("code", "condition"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, MESSAGE_SIZE_EXCEEDED),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED_ACCESS),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NOT_FOUND),
        (KafkaError._UNKNOWN_PARTITION, NOT_FOUND),
        (KafkaError.INVALID_RECORD, INVALID_FIELD),
    ],
)
def test_definitive_refusals_are_rejections(code: int, condition: str) -> None:
    for outcome in (errors.failed(KafkaError(code)), errors.refused(KafkaError(code))):
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == condition


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._FATAL,
    ],
)
def test_what_nobody_knows_is_modified_but_what_never_left_is_released(code: int) -> None:
    assert errors.failed(KafkaError(code)) is FAILED
    assert errors.refused(KafkaError(code)) is RELEASED


def test_a_record_that_was_refused_for_the_sake_of_another_may_be_sent_again() -> None:
    assert errors.failed(KafkaError(KafkaError._INVALID_DIFFERENT_RECORD)) is RELEASED
    assert errors.failed(KafkaError(KafkaError.INVALID_RECORD), keyed=True) is FAILED


def test_errors_of_links() -> None:
    conditions = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: NOT_FOUND,
        KafkaError.TOPIC_AUTHORIZATION_FAILED: UNAUTHORIZED_ACCESS,
        KafkaError._TRANSPORT: INTERNAL_ERROR,
    }
    for code, condition in conditions.items():
        assert errors.link_error(KafkaError(code)).condition == condition


def noted(*names: str) -> bytes:
    return encode({Symbol(name): None for name in names})


def test_the_work_of_merging_annotations_grows_with_them() -> None:
    event = EncodedEvent(message(b"x"), 0, 1)

    def work(count: int) -> int:
        change = noted(*(f"x-opt-{number:05}" for number in range(count)))
        return steps(lambda: redelivered(event, failed=True, annotations=change))

    assert work(1200) < 6 * work(300)


def test_annotations_that_receivers_add_to_an_event_are_bounded() -> None:
    """Each `modified` may bring others: what makes them more than 64 KiB is left out and counted (KM-12)."""
    counters = ClusterCounters()
    event = EncodedEvent(message(b"x"), 0, 1)
    for turn in range(5):
        change = noted(*(f"x-opt-{turn}-{number:04}" for number in range(1500)))
        event = redelivered(event, failed=True, annotations=change, counters=counters)
    annotations = sections.message_annotations(event.data, sections.walk(event.data))
    assert {name[6] for name in annotations} == {"0", "1"}
    assert counters.annotations_refused == 3
    assert event.failures == 5, "the rest of the outcome counts"
    event = redelivered(event, failed=False, annotations=noted("x-opt-0-0000"), counters=counters)
    assert counters.annotations_refused == 3, "what makes them no larger is merged"


def test_an_event_that_has_many_annotations_itself_keeps_them() -> None:
    """The bound is for what is added."""
    own = {f"x-opt-{number:05}": number for number in range(8000)}
    data, counters = message(b"x", ma=own), ClusterCounters()
    edited = redelivered(EncodedEvent(data, 0, 1), failed=False, annotations=noted("x-opt-new"), counters=counters).data
    assert edited == data
    assert counters.annotations_refused == 1
    event = EncodedEvent(data, 0, 1)
    edited = redelivered(event, failed=False, annotations=noted("x-opt-00000"), counters=counters).data
    assert sections.message_annotations(edited, sections.walk(edited)) == {**own, "x-opt-00000": None}


# -- fields of types that AMQP does not give them

ODD = [Ulong(2**32), Ulong(5), Long(-1), Int(5), Timestamp(5), True, 0.5, "soon", [5]]
UNREADABLE = b"\x00\x53\x70\xc0\x02\x01\xff"
"""A header whose first field has no constructor."""


def headed(*fields: Any) -> bytes:
    return sections.section(sections.HEADER, list(fields)) + message(b"m")


@pytest.mark.parametrize("data", [*(headed(None, None, value) for value in ODD), UNREADABLE + message(b"m")])
def test_a_ttl_of_another_type_is_none(data: bytes) -> None:
    event = EncodedEvent(data, 0, 7, time=1000)
    assert ttl(data) is None
    assert not expired(event, 10**12)
    assert with_remaining_ttl(event, 10**12) is event


def test_a_ttl_is_any_uint() -> None:
    event = EncodedEvent(headed(None, None, Uint(2**32 - 1)), 0, 7, time=1000)
    assert not expired(event, 1000 + 2**32 - 2)
    assert expired(event, 1000 + 2**32 - 1)
    left = sections.header(with_remaining_ttl(event, 1001).data, sections.walk(with_remaining_ttl(event, 1001).data))[2]
    assert (type(left), left) == (Uint, 2**32 - 2)


@pytest.mark.parametrize("value", ["never", Ulong(5), Long(5), True])
def test_an_expiry_time_of_another_type_is_none(value: Any) -> None:
    header = sections.section(sections.HEADER, [None, None, Uint(10)])
    event = EncodedEvent(
        header + sections.section(sections.PROPERTIES, [*[None] * 8, value]) + message(b"m"), 0, 7, time=1000
    )
    assert not expired(event, 1009)
    assert expired(event, 1010), "its ttl counts"


def test_failures_cannot_be_counted_in_a_header_that_cannot_be_read() -> None:
    event = redelivered(EncodedEvent(UNREADABLE + message(b"m"), 0, 7), failed=True)
    assert (event.data, event.failures) == (UNREADABLE + message(b"m"), 1)

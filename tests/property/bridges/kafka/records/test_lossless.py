"""Nothing of a message is lost on its way through Kafka: every AMQP type in every section, CloudEvents too (KM-13)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.records.mapping import RecordWriter, from_record, to_record
from gateway.amqp.codec.codec import Array, Described, Symbol, Timestamp
from gateway.amqp.message import sections
from tests.support.amqp.strategies import (
    APPLICATION_PROPERTIES,
    BARE_MESSAGES,
    FOOTER_SECTIONS,
    HEADER_SECTIONS,
    KINDS,
    MA_SECTIONS,
    SYMBOLS,
    TEXT,
)
from tests.support.plugins.examples import draw_examples, examples
from tests.support.project.tables import Lines

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
PREFIXES = st.sampled_from(["cloudEvents:", "cloudEvents_"])
COMPOUND: dict[str, st.SearchStrategy[Any]] = {
    "list": st.lists(KINDS["string"] | KINDS["double"] | st.none(), max_size=3),
    "map": st.dictionaries(TEXT | SYMBOLS, KINDS["decimal64"] | KINDS["uuid"], max_size=3),
    "described": st.builds(Described, SYMBOLS | KINDS["ulong"], KINDS["timestamp"] | KINDS["binary"]),
    "array": st.builds(Array, st.just("ushort"), st.lists(KINDS["ushort"], max_size=3).map(tuple), st.just(())),
    "array of descriptors": st.builds(
        Array, st.just("string"), st.lists(TEXT, max_size=2).map(tuple), st.just((Symbol("a"),))
    ),
    "array of arrays": st.just(Array("array", (Array("uint", ()), Array("uint", ())))),
}
TYPES = KINDS | COMPOUND
DATA = sections.section(sections.DATA, b"body")
ATTRIBUTES = sections.section(
    sections.APPLICATION_PROPERTIES, {f"cloudEvents:{name}": value for name, value in REQUIRED.items()}
)


def placed(where: str, value: Any) -> tuple[bytes, bytes]:
    """A message with the value in a section: its header, and everything behind the delivery annotations."""
    key = Symbol("x-opt-v")
    if where == "delivery-count":  # the header's fields have fixed types, and are all kept
        return sections.section(sections.HEADER, [True, None, None, None, value]), DATA
    code = {
        "message-annotations": sections.MESSAGE_ANNOTATIONS,
        "application-properties": sections.APPLICATION_PROPERTIES,
        "footer": sections.FOOTER,
    }.get(where)
    if where == "application-properties":
        return b"", sections.section(sections.APPLICATION_PROPERTIES, {"v": value}) + DATA
    if where == "message-annotations":
        return b"", sections.section(sections.MESSAGE_ANNOTATIONS, {key: value}) + DATA
    if code is not None:
        return b"", DATA + sections.section(code, {key: value})
    if where == "message-id":
        return b"", sections.section(sections.PROPERTIES, [value]) + DATA
    if where == "sequence":
        return b"", sections.section(sections.AMQP_SEQUENCE, [value, value])
    return b"", sections.section(sections.AMQP_VALUE, value)


PLACES = [
    *((where, kind) for where in ("message-annotations", "footer", "sequence", "value") for kind in TYPES),
    *(("application-properties", kind) for kind in KINDS),
    *(("message-id", kind) for kind in ("null", "string", "ulong", "uuid", "binary")),
    ("delivery-count", "uint"),
]


@cache
def values(kind: str, count: int) -> list[Any]:
    """Values of a type, the same for all places: a draw takes more time than what is tested with it."""
    return draw_examples(TYPES[kind], examples(count))


def stored_and_read(data: bytes, mode: str, **options: Any) -> tuple[Any, bytes, bytes]:
    record = to_record(data, sections.walk(data), mode=mode, **options)
    return record, *from_record(record.key, record.value, record.headers)


WHERE = sorted({where for where, _ in PLACES})


def kinds(where: str) -> list[str]:
    """The types that a section may have there."""
    return [kind for place, kind in PLACES if place == where]


@pytest.mark.row("CORE-5")
@pytest.mark.parametrize("mode", ["auto", "amqp"])
@pytest.mark.parametrize("where", WHERE)
def test_every_type_in_every_section(mode: str, where: str) -> None:
    lines = Lines()
    for kind in kinds(where):
        with lines.line(kind):
            for value in values(kind, 25):
                header, rest = placed(where, value)
                assert stored_and_read(header + rest, mode)[1:] == (header, rest)
    lines.check()


@pytest.mark.parametrize("where", [each for each in WHERE if each != "application-properties"])
def test_every_type_in_every_section_of_a_cloudevent(where: str) -> None:
    lines = Lines()
    for kind in kinds(where):
        with lines.line(kind):
            of_a_cloudevent(where, kind)
    lines.check()


def of_a_cloudevent(where: str, kind: str) -> None:
    """Check the values of a type in a section of a CloudEvent."""
    for value in values(kind, 10):
        header, rest = placed(where, value)
        layout = sections.walk(rest)
        rest = rest[: layout.app] + ATTRIBUTES + rest[layout.body :]
        record, *found = stored_and_read(header + rest, "cloudevents")
        assert found == [header, rest]
        assert ("ce_id", b"1") in record.headers


@st.composite
def events(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A CloudEvent in binary mode with any other content: its header, and the rest."""
    prefix = draw(PREFIXES)
    more = draw(st.dictionaries(st.sampled_from(["subject", "time", "x1", "blob"]), st.one_of(*KINDS.values())))
    given_ = {prefix + name: value for name, value in (REQUIRED | more).items()} | draw(APPLICATION_PROPERTIES)
    bare = draw(BARE_MESSAGES)
    layout = sections.walk(bare)
    attributes = sections.section(sections.APPLICATION_PROPERTIES, given_)
    header = draw(st.just(b"") | HEADER_SECTIONS)
    return header, draw(st.just(b"") | MA_SECTIONS) + bare[: layout.app] + attributes + bare[layout.body :]


@given(events(), st.sampled_from(["auto", "cloudevents"]))
def test_a_cloudevent_comes_back_byte_equal(event: tuple[bytes, bytes], mode: str) -> None:
    record, *found = stored_and_read(b"".join(event), mode)
    assert tuple(found) == event
    names = {name for name, _ in record.headers}
    assert {f"ce_{name}" for name in REQUIRED} <= names
    assert not names & {prefix + name for prefix in ("cloudEvents:", "cloudEvents_") for name in REQUIRED}


@given(BARE_MESSAGES, st.just(b"") | FOOTER_SECTIONS, st.sampled_from(["json", "avro", "-batch+json"]))
def test_a_structured_cloudevent_is_stored_as_it_is(bare: bytes, footer: bytes, kind: str) -> None:
    layout = sections.walk(bare)
    media = Symbol(f"application/cloudevents{'+' if kind[0] != '-' else ''}{kind}")
    head = sections.section(sections.PROPERTIES, [None] * 6 + [media])
    rest = head + bare[layout.app : layout.footer] + footer
    record, *found = stored_and_read(rest, "cloudevents")
    assert found == [b"", rest]
    assert dict(record.headers)["content-type"] == media.encode()


ATTRIBUTE_TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10)


@given(
    st.fixed_dictionaries(dict.fromkeys(REQUIRED, ATTRIBUTE_TEXTS)),
    st.dictionaries(st.sampled_from(["subject", "ext", "x2"]), ATTRIBUTE_TEXTS),
    st.none() | st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z"),
    st.binary(max_size=5),
    st.none() | st.binary(max_size=3),
)
def test_a_cloudevent_of_any_kafka_producer_goes_back_as_it_came(
    required: dict[str, str], more: dict[str, str], moment: str | None, value: bytes, key: bytes | None
) -> None:
    attributes = required | more | ({} if moment is None else {"time": moment})
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()] + [("other", b"\xff")]
    header, rest = from_record(key, value, headers)
    found = sections.application_properties(rest, sections.walk(rest))
    assert {name: found[f"cloudEvents:{name}"] for name in REQUIRED} == required
    if moment is not None:
        assert type(found["cloudEvents:time"]) is Timestamp
    record = to_record(header + rest, sections.walk(header + rest), mode="cloudevents")
    assert (record.key, record.value) == (key, value)
    assert [item for item in record.headers if not item[0].startswith("amqp.")] == headers


@given(TEXT, st.none() | TEXT, st.sampled_from(["auto", "amqp", "data"]))
def test_a_key_from_the_group_id_changes_nothing_else(group: str, key: str | None, mode: str) -> None:
    ma = (
        b"" if key is None else sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("event-streams-group-key"): key})
    )
    data = ma + sections.section(sections.PROPERTIES, [None] * 10 + [group]) + DATA
    stored, value, headers = RecordWriter(mode, keys=("group-key", "group-id")).record(data, sections.walk(data))
    assert stored == (group if key is None else key).encode()
    if mode != "data":
        assert b"".join(from_record(stored, value, headers)) == data
    else:
        assert value == b"body"

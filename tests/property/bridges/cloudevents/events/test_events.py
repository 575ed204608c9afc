"""Any record is an event or none, and every binding either carries the event or says that it cannot."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.bindings.http import http_binary, http_structured
from bridges.cloudevents.events.bindings.kafka import kafka_binary, kafka_structured
from bridges.cloudevents.events.bindings.nats import nats_binary
from bridges.cloudevents.events.event import event_of
from bridges.kafka.records.envelope import Header
from gateway.amqp.message.sections import walk
from tests.support.cloudevents.golden import ENCODERS
from tests.support.cloudevents.records import ADDRESS, REQUIRED, StoredRecord
from tests.support.plugins.examples import examples

MEDIA = (b"application/json", b"text/plain", b"", b"\xff", b"a/b; charset=latin-1", b"application/cloudevents",
         b"application/cloudevents+json", b"application/CloudEvents+JSON; charset=UTF-8",
         b"application/cloudevents+avro")  # fmt: skip
NAMES = ("subject", "time", "ext", "datacontenttype", "data", "Upper", "", "specversion", "id")
TEXTS = st.text(max_size=6) | st.sampled_from(("%41", 'a"b', "\0", "\r\n"))
MORE: st.SearchStrategy[Header] = st.tuples(
    st.sampled_from([f"ce_{name}" for name in NAMES] + ["amqp.body", "amqp.bare", "x"]),
    st.none() | st.binary(max_size=4) | TEXTS.map(str.encode) | st.just(b"sections"),
)
MEDIAS: st.SearchStrategy[Header] = st.tuples(st.just("content-type"), st.sampled_from(MEDIA))
EVENT: list[Header] = [(f"ce_{name}", value.encode()) for name, value in REQUIRED.items()]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MEMBERS = st.dictionaries(st.sampled_from((*NAMES, "data_base64")), JSON).map(
    lambda more: json.dumps({**REQUIRED, **more}).encode()
)
DATA = st.none() | st.binary(max_size=8) | JSON.map(lambda value: json.dumps(value).encode()) | MEMBERS
RECORDS = st.builds(
    lambda known, media, more, data, key: StoredRecord([*known, *media, *more], data, key),
    st.sampled_from((EVENT, EVENT[1:], [])), st.lists(MEDIAS, max_size=1), st.lists(MORE, max_size=4), DATA,
    st.none() | st.binary(max_size=3),
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(RECORDS, st.booleans())
def test_any_record_can_be_read_and_sent_or_refused(record: StoredRecord, wrap: bool) -> None:
    event = event_of(record, ADDRESS, wrap=wrap)
    assert event is not None or not wrap
    if event is None:
        return
    for name, encode in ENCODERS.items():
        try:
            encoded = encode(event)
        except NotEncodable:
            assert not event.attributes or name.startswith("mqtt")
        else:
            if name.startswith("amqp"):
                walk(encoded)
    fields, body = http_binary(event)
    assert all(value.isascii() and value.isprintable() for _, value in fields)
    assert body == (event.data or b"")


@pytest.mark.row("CE-B-1", "CE-B-3", "CE-B-5")
@settings(max_examples=examples(300), deadline=None)
@given(RECORDS)
def test_what_is_written_reads_as_the_same_event(record: StoredRecord) -> None:
    event = event_of(record, ADDRESS, wrap=True)
    assert event is not None
    if not event.attributes:
        return
    percent = dict(http_binary(event)[0])
    assert {name[3:]: unquote(value) for name, value in percent.items() if name[:3] == "ce-"} == event.attributes
    assert nats_binary(event)[0].items() >= {name: text for name, text in percent.items() if name[:3] == "ce-"}.items()
    for encode in (kafka_binary, kafka_structured):
        again = event_of(StoredRecord(*encode(event)), ADDRESS, wrap=False)
        if again is None:  # binary data of an event whose content type says that it is structured
            assert (event.content_type or "").lower().startswith("application/cloudevents")
            continue
        if again.structured is None or event.structured is None:
            continue
        assert again.attributes == event.attributes
    body = http_structured(event)[1]
    again = event_of(StoredRecord([("content-type", b"application/cloudevents+json")], body), ADDRESS, wrap=False)
    if event.structured is None:
        assert again is not None
        assert again.attributes == event.attributes
        assert (again.content_type, same(again.data)) == (event.content_type, same(event.data))


def same(data: bytes | None) -> object:
    """Data of JSON as its value: what stands between its tokens is lost."""
    try:
        return repr(json.loads(data.decode())) if data is not None else None
    except ValueError:
        return data

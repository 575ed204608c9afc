"""Events as HTTP requests (HTTP Protocol Binding 1.0)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.events.bindings.http import http_binary
from bridges.cloudevents.events.event import CloudEvent, StructuredBody
from tests.support.cloudevents.records import ADDRESS, event


@pytest.mark.row("CE-3.2.2.1-4")
def test_binary_has_attributes_in_the_header_and_data_in_the_body() -> None:
    fields, body = http_binary(event(subject="x", datacontenttype="text/plain"))
    assert sorted(fields) == [
        ("ce-id", "a-1"),
        ("ce-source", "/shop/1"),
        ("ce-specversion", "1.0"),
        ("ce-subject", "x"),
        ("ce-type", "com.example.order.created"),
        ("content-type", "text/plain"),
    ]
    assert body == b"{}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),  # the example of 3.1.3.2
        ('"%\r\n\0\x7f', "%22%25%0D%0A%00%7F"),
        ("!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~", "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"),
    ],
)
def test_attributes_are_percent_encoded(text: str, shown: str) -> None:
    assert dict(http_binary(event(subject=text))[0])["ce-subject"] == shown


def test_unreadable_event_is_sent_as_it_is() -> None:
    media = "application/cloudevents-batch+json"
    found = CloudEvent({}, media, b"[]", None, ADDRESS, 0, 0, 0, StructuredBody(media, b"[]"))
    assert http_binary(found) == ([("content-type", media)], b"[]")


def test_content_type_cannot_break_the_header() -> None:
    assert dict(http_binary(event(datacontenttype="text/plain\r\nx: ü"))[0])["content-type"] == "text/plainx:"

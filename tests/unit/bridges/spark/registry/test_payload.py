"""Payloads of a schema registry become JSON, and what cannot be decoded has a reason."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from bridges.spark.registry.client import RegistryOptions, SchemaRegistry
from bridges.spark.registry.payload import Payload, PayloadDecoder
from tests.support.spark.registry import RegistryServer, registry

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "token", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
    ],
}  # fmt: skip
VALUE = {"id": 7, "token": b"\xff", "at": datetime(2026, 1, 2, tzinfo=UTC), "price": Decimal("1.50"), "note": "é"}


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with registry() as found:
        yield found


@pytest.fixture
def decoder(server: RegistryServer) -> PayloadDecoder:
    server.asked.clear()
    return PayloadDecoder(SchemaRegistry(RegistryOptions(server.url, "analyst", "secret")))


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + data


def avro(schema: Any, value: object) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()


def test_avro_with_logical_types(server: RegistryServer, decoder: PayloadDecoder) -> None:
    server.register(7, ORDER)
    body = framed(7, avro(ORDER, VALUE))
    found = decoder.decode(body)
    assert (found.schema_id, found.reason) == (7, None)
    assert json.loads(found.text or "") == {
        "id": 7, "token": "/w==", "at": "2026-01-02T00:00:00+00:00", "price": "1.50", "note": "é",
    }  # fmt: skip
    assert decoder.decode(body) == found
    assert server.asked == ["/schemas/ids/7"]  # once
    assert server.logins[-1] == "Basic " + base64.b64encode(b"analyst:secret").decode()


def test_avro_that_refers_to_another_schema(server: RegistryServer, decoder: PayloadDecoder) -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    whole = {"type": "record", "name": "Shop", "fields": [{"name": "at", "type": "Place"}]}
    server.register(8, whole, references=[server.version("place", 3, place)])
    inlined = {**whole, "fields": [{"name": "at", "type": place}]}
    found = decoder.decode(framed(8, avro(inlined, {"at": {"city": "Rom"}})))
    assert found == Payload(8, '{"at": {"city": "Rom"}}', None)


def test_json_is_as_it_is(server: RegistryServer, decoder: PayloadDecoder) -> None:
    server.register(9, {"type": "object"}, "JSON")
    assert decoder.decode(framed(9, b'{"a":1}')) == Payload(9, '{"a":1}', None)
    found = decoder.decode(framed(9, b"{"))
    assert (found.text, (found.reason or "").startswith("does not match schema 9: JSONDecodeError: ")) == (None, True)


def descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Messages First and Second; Second.Inner has a text, a time and a message of another file."""
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3", package="shop")
    file.dependency.extend(["google/protobuf/timestamp.proto", "place"])
    file.message_type.add(name="First").field.add(name="n", number=1, type=3, label=1)
    inner = file.message_type.add(name="Second").nested_type.add(name="Inner")
    inner.field.add(name="some_text", number=1, type=9, label=1)
    inner.field.add(name="at", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    inner.field.add(name="place", number=3, type=11, type_name=".geo.Place", label=1)
    return file


def test_protobuf_by_the_index_of_its_message(server: RegistryServer, decoder: PayloadDecoder) -> None:
    place = descriptor_pb2.FileDescriptorProto(name="place", syntax="proto3", package="geo")
    place.message_type.add(name="Place").field.add(name="city", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    for each in (timestamp_pb2.DESCRIPTOR.serialized_pb, place.SerializeToString(), descriptor().SerializeToString()):
        pool.AddSerializedFile(each)
    text, other = (base64.b64encode(each.SerializeToString()).decode() for each in (descriptor(), place))
    server.register(10, text, "PROTOBUF", [server.version("place", 1, other, "PROTOBUF")])
    first = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.First"))(n=5)
    inner = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Second.Inner"))(some_text="x")
    inner.at.seconds = 1
    inner.place.city = "Rom"
    short, long = b"\0", b"\x04\x02\x00"  # the first message; two indexes: 1, 0
    assert json.loads(decoder.decode(framed(10, short + first.SerializeToString())).text or "") == {"n": "5"}
    assert json.loads(decoder.decode(framed(10, b"\x02\x00" + first.SerializeToString())).text or "") == {"n": "5"}
    assert json.loads(decoder.decode(framed(10, long + inner.SerializeToString())).text or "") == {
        "some_text": "x", "at": "1970-01-01T00:00:01Z", "place": {"city": "Rom"},
    }  # fmt: skip
    for bad in (b"\x02\x0a", b"\x01", b"\x80", b"\x02", b"", short + b"\xff\xff"):
        found = decoder.decode(framed(10, bad))
        assert (found.text, bool(found.reason)) == (None, True), bad
    assert "/schemas/ids/10?format=serialized" in server.asked


@pytest.mark.parametrize(
    ("body", "number", "reason"),
    [
        (None, None, None),
        (b"", None, "the body does not begin with a zero byte and the id of a schema"),
        (b"\1\0\0\0\7x", None, "the body does not begin with a zero byte and the id of a schema"),
        (b"\0\0\0\0", None, "the body does not begin with a zero byte and the id of a schema"),
        (framed(99, b"x"), 99, "the registry has no schema 99"),
        (framed(12, b"x"), 12, "schema 12 has the unknown kind XML"),
    ],
)
def test_what_has_no_schema(
    server: RegistryServer, decoder: PayloadDecoder, body: bytes | None, number: int | None, reason: str | None
) -> None:
    server.register(12, "<x/>", "XML")
    assert decoder.decode(body) == Payload(number, None, reason)


def test_what_is_not_of_its_schema(server: RegistryServer, decoder: PayloadDecoder) -> None:
    server.register(7, ORDER)
    server.register(13, {"type": "record"})
    server.answers["/schemas/ids/14"] = []
    whole = avro(ORDER, VALUE)
    for number, data, start in (
        (7, whole[:-1], "does not match schema 7: "),
        (7, whole + b"x", "does not match schema 7: ValueError: bytes follow the value"),
        (13, whole, "schema 13 cannot be used: "),
        (14, whole, "the registry's answer for schema 14 is not a JSON object"),
    ):
        found = decoder.decode(framed(number, data))
        assert (found.text, (found.reason or "").startswith(start)) == (None, True), found


def test_a_registry_that_does_not_answer_is_a_reason() -> None:
    with registry() as gone:
        pass
    found = PayloadDecoder(SchemaRegistry(RegistryOptions(gone.url))).decode(framed(1, b"x"))
    assert (found.reason or "").startswith(f"the registry at {gone.url.removeprefix('http://')} does not answer (")

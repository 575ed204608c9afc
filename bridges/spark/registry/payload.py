"""Payloads as JSON text: a zero byte, four bytes of the schema's id, and Avro, Protobuf or JSON (docs/pipeline.md).

A body that cannot be decoded gets a reason, and does not fail the query.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from bridges.spark.errors import PipelineError
from bridges.spark.registry.client import AVRO, JSON, PROTOBUF, NoSchema, RegisteredSchema, SchemaRegistry

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool

_PREFIX: Final = 5
_VARINT_BITS: Final = 63
Decode = Callable[[bytes], str]
"""Decodes what follows the id to JSON. Raises any exception if it is invalid."""


class Payload(NamedTuple):
    """A decoded body: the schema's id, the JSON, or the reason why there is none."""

    schema_id: int | None
    text: str | None
    reason: str | None


class PayloadDecoder:
    """Decodes bodies with the schemas of one registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry: Final = registry
        self._decoders: Final[dict[int, Decode | str]] = {}
        """The decoding function by id, or the reason why there is none."""

    def decode(self, body: bytes | None) -> Payload:
        """The JSON of a body."""
        if body is None:
            return Payload(None, None, None)
        if len(body) < _PREFIX or body[0]:
            return Payload(None, None, "the body does not begin with a zero byte and the id of a schema")
        number = int.from_bytes(body[1:_PREFIX])
        if number not in self._decoders:
            self._decoders[number] = self._made(number)
        decode = self._decoders[number]
        if isinstance(decode, str):
            return Payload(number, None, decode)
        try:
            return Payload(number, decode(body[_PREFIX:]), None)
        except Exception as error:  # the formats' libraries raise anything
            return Payload(number, None, f"does not match schema {number}: {type(error).__name__}: {error}"[:300])

    def _made(self, number: int) -> Decode | str:
        try:
            schema = self._registry.schema(number)
            return _DECODERS[schema.kind](schema)
        except NoSchema as error:
            return str(error)
        except KeyError:
            return f"schema {number} has the unknown kind {schema.kind}"
        except Exception as error:  # an invalid schema
            return f"schema {number} cannot be used: {type(error).__name__}: {error}"[:300]


def check_libraries() -> None:
    """Raise `PipelineError` if the libraries of the formats are not installed."""
    try:
        import fastavro  # noqa: F401
        import google.protobuf  # noqa: F401
    except ImportError:
        raise PipelineError("payloads with a schema registry need pip install 'scopegate[registry]'") from None


# -- Avro


def _avro(schema: RegisteredSchema) -> Decode:
    import fastavro

    named: dict[str, dict[str, object]] = {}
    _parse_references(schema, named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)

    def decode(data: bytes) -> str:
        file = io.BytesIO(data)
        value = fastavro.schemaless_reader(file, parsed, None)
        if file.read(1):
            raise ValueError("bytes follow the value")
        return json.dumps(value, default=_plain, ensure_ascii=False)

    return decode


def _parse_references(schema: RegisteredSchema, named: dict[str, dict[str, object]]) -> None:
    import fastavro

    for _, each in schema.references:
        _parse_references(each, named)
        fastavro.parse_schema(json.loads(each.text), named_schemas=named)


def _plain(value: object) -> object:
    """Logical types and bytes as JSON: base64, ISO 8601, decimals as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


# -- JSON


def _json(schema: RegisteredSchema) -> Decode:
    """The decoder of JSON, which does not need the schema; views take the types from it."""

    def decode(data: bytes) -> str:
        text = data.decode()
        json.loads(text)
        return text

    return decode


# -- Protobuf


def _protobuf(schema: RegisteredSchema) -> Decode:
    from google.protobuf import descriptor_pool, json_format, message_factory

    pool = descriptor_pool.DescriptorPool()
    _add_well_known(pool)
    file = _added(pool, "scopegate.proto", schema)

    def decode(data: bytes) -> str:
        indexes, start = _message_indexes(data)
        message = message_factory.GetMessageClass(_message(file, indexes))()
        message.ParseFromString(data[start:])
        text: str = json_format.MessageToJson(
            message, preserving_proto_field_name=True, indent=None, ensure_ascii=False, descriptor_pool=pool,
            always_print_fields_with_no_presence=True,
        )  # fmt: skip
        return text

    return decode


def _add_well_known(pool: DescriptorPool) -> None:
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    known = any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
    for each in known:
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)


def _added(pool: DescriptorPool, name: str, schema: RegisteredSchema) -> FileDescriptor:
    """Add a file to the descriptor pool, after the files that it imports."""
    from google.protobuf import descriptor_pb2

    for imported, each in schema.references:
        _added(pool, imported, each)
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.text))
    file.name = name
    found: FileDescriptor
    try:
        found = pool.FindFileByName(name)
    except KeyError:
        pool.Add(file)
        found = pool.FindFileByName(name)
    return found


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """The path of the message type in its file, and the start of the message; a zero byte means the first type."""
    count, at = _varint(data, 0)
    indexes = []
    for _ in range(min(count, len(data))):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the position after it. Raises `ValueError`."""
    value = shift = 0
    while at < len(data) and shift <= _VARINT_BITS:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            number = (value >> 1) ^ -(value & 1)
            if number < 0:
                raise ValueError("the index of a message is negative")
            return number, at
    raise ValueError("the index of the message is incomplete")


def _message(file: FileDescriptor, indexes: list[int]) -> Descriptor:
    within = list(file.message_types_by_name.values())
    for index in indexes[:-1]:
        within = list(within[index].nested_types)
    return within[indexes[-1]]


_DECODERS: Final[dict[str, Callable[[RegisteredSchema], Decode]]] = {AVRO: _avro, JSON: _json, PROTOBUF: _protobuf}

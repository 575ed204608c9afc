"""Encodes rows as messages for the sink: from their encoded message, or from columns with its parts (docs/pipeline.md).

`encoder` checks the schema once, so that errors are reported before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from pyspark.sql import types as T

from bridges.spark.columns import schema as columns
from bridges.spark.datasource.options import suggestion
from bridges.spark.errors import PipelineError
from gateway.amqp.codec.codec import (
    Byte,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    decode_all,
    encode,
    encode_list,
)
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from gateway.routing.event_annotations import forwarded

Row: TypeAlias = Mapping[str, Value]
"""A row by column, as Arrow converts it to Python; the schema has the types of its values."""
Encoder: TypeAlias = Callable[[Row], bytes]
Convert: TypeAlias = Callable[[Value], Value]
"""Converts a value of Spark to the AMQP value of the same type."""
ColumnTypes: TypeAlias = Mapping[str, T.DataType]

WRITTEN: Final = (
    "bare_message", "head", "body", "key", "header", "message_annotations", "properties", "application_properties",
    "target_partition",
)  # fmt: skip
_PLACES: Final = ("partition", "offset", "timestamp")
"""Columns with the origin of a row, for errors; they are not sent."""
_GROUP_KEY, _KAFKA_KEY, _TARGET = "event-streams-group-key", "x-opt-kafka-key", "event-streams-target-partition"
_NUMBERS: Final[dict[str, Convert]] = {
    "ubyte": Ubyte, "ushort": Ushort, "uint": Uint, "ulong": Ulong, "byte": Byte, "short": Short, "int": Int,
    "long": Long, "timestamp": Timestamp,
}  # fmt: skip
_SCALARS: Final[dict[type, Convert]] = {
    T.StringType: str, T.BinaryType: bytes, T.BooleanType: bool, T.ByteType: Byte, T.ShortType: Short,
    T.IntegerType: Int, T.LongType: Long, T.FloatType: Float, T.DoubleType: float,
    T.TimestampType: lambda value: Timestamp(round(value.timestamp() * 1000)),
}  # fmt: skip
_HEADER: Final[dict[str, Convert]] = {
    "durable": bool, "priority": Ubyte, "ttl": Uint, "first_acquirer": bool, "delivery_count": Uint,
}  # fmt: skip
_PROPERTIES: Final[dict[str, Convert]] = {
    "message_id": lambda value: value, "user_id": bytes, "to": str, "subject": str, "reply_to": str,
    "correlation_id": lambda value: value, "content_type": lambda value: Symbol(value),
    "content_encoding": lambda value: Symbol(value), "absolute_expiry_time": Timestamp, "creation_time": Timestamp,
    "group_id": str, "group_sequence": Uint, "reply_to_group_id": str,
}  # fmt: skip
_IDENTIFIERS: Final = ("message_id", "correlation_id")


def encoder(schema: T.StructType) -> Encoder:
    """The function that encodes rows of this schema. Raises `PipelineError` for a schema without messages."""
    fields = {field.name: field.dataType for field in schema}
    exact = "bare_message" in fields
    known = (*WRITTEN, *columns.COLUMNS) if exact else (*WRITTEN, *_PLACES)
    for name in fields:
        if name not in known:
            instead = ": write bare_message for it" if name in columns.COLUMNS else suggestion(name, WRITTEN)
            raise PipelineError(f"format scopegate: column {name} cannot be written{instead} ({_there_are()})")
    if not exact and "body" not in fields:
        raise PipelineError(f"format scopegate: either a column body or bare_message is needed ({_there_are()})")
    target = _target_setter(fields)
    message = _from_encoded(fields) if exact else _from_parts(fields)
    return (lambda row: target(row, message(row))) if target is not None else message


def _there_are() -> str:
    return f"columns that can be written: {', '.join(WRITTEN)}"


def _require_type(name: str, kind: T.DataType, *allowed: type[T.DataType]) -> T.DataType:
    if not isinstance(kind, allowed):
        names = " or ".join(each().simpleString() for each in allowed)
        raise PipelineError(f"format scopegate: column {name} has to be {names}, not {kind.simpleString()}")
    return kind


def _from_encoded(fields: ColumnTypes) -> Encoder:
    for name in ("head", "bare_message"):
        _require_type(name, fields.get(name, T.BinaryType()), T.BinaryType)

    def message(row: Row) -> bytes:
        if not (row.get("head") or row["bare_message"]):
            raise ValueError("head and bare_message are null: read archives with messages=True")
        data = bytes(row.get("head") or b"") + bytes(row["bare_message"] or b"")
        sections.walk(data)
        return forwarded(data)

    return message


TargetSetter: TypeAlias = Callable[[Row, bytes], bytes]


def _target_setter(fields: ColumnTypes) -> TargetSetter | None:
    if "target_partition" not in fields:
        return None
    _require_type("target_partition", fields["target_partition"], T.IntegerType, T.LongType, T.ShortType, T.StringType)

    def set_target(row: Row, data: bytes) -> bytes:
        if row["target_partition"] is None:
            return data
        layout = sections.walk(data)
        put = {_TARGET: encode(Symbol(row["target_partition"]))}
        return sections.splice(data, layout, da=sections.edit_map(data[layout.da : layout.ma], put=put))

    return set_target


def _from_parts(fields: ColumnTypes) -> Encoder:
    parts = [
        part
        for part in (
            _list("header", fields.get("header"), _HEADER, sections.HEADER),
            _annotations(fields),
            _list("properties", fields.get("properties"), _PROPERTIES, sections.PROPERTIES),
            _application_properties(fields.get("application_properties")),
            _body(fields["body"]),
        )
        if part is not None
    ]
    return lambda row: b"".join([part(row) for part in parts])


def _list(name: str, kind: T.DataType | None, converts: Mapping[str, Convert], code: int) -> Encoder | None:
    """The encoder of a section that is a list, up to its last field that is set."""
    if kind is None:
        return None
    if not isinstance(kind, T.StructType):
        raise PipelineError(f"format scopegate: column {name} has to be a struct, not {kind.simpleString()}")
    names = tuple(converts)
    given = {}
    for field in kind:
        if field.name not in converts:
            there_are = f"there is: {', '.join(names)}"
            text = f"{name} has no field {field.name}{suggestion(field.name, names)} ({there_are})"
            raise PipelineError(f"format scopegate: {text}")
        typed = field.name in _IDENTIFIERS
        given[field.name] = _scalar(f"{name}.{field.name}", field.dataType) if typed else converts[field.name]

    def section(row: Row) -> bytes:
        values = row[name]
        if values is None:
            return b""
        encoded = []
        for place in names:
            value = values.get(place) if place in given else None
            encoded.append(b"\x40" if value is None else encode(given[place](value)))
        while encoded and encoded[-1] == b"\x40":
            encoded.pop()
        return bytes((0, 0x53, code)) + encode_list(encoded)

    return section


def _annotations(fields: ColumnTypes) -> Encoder | None:
    """The encoder of the message annotations, including the key of the event."""
    kind, key = fields.get("message_annotations"), fields.get("key")
    if kind is None and key is None:
        return None
    convert = None if kind is None else _map("message_annotations", kind)
    named = None
    if key is not None:
        _require_type("key", key, T.StringType, T.BinaryType)
        named = _GROUP_KEY if isinstance(key, T.StringType) else _KAFKA_KEY

    def section(row: Row) -> bytes:
        entries = {} if convert is None else convert(row["message_annotations"])
        if named is not None and row["key"] is not None:
            entries[named] = row["key"]
        if not entries:
            return b""
        return sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol(name): value for name, value in entries.items()})

    return section


def _application_properties(kind: T.DataType | None) -> Encoder | None:
    if kind is None:
        return None
    convert = _map("application_properties", kind)

    def section(row: Row) -> bytes:
        entries = convert(row["application_properties"])
        return sections.section(sections.APPLICATION_PROPERTIES, entries) if entries else b""

    return section


def _body(kind: T.DataType) -> Encoder:
    """Binary becomes a data section, text an amqp-value; null becomes the amqp-value null."""
    code = sections.DATA if isinstance(_require_type("body", kind, T.BinaryType, T.StringType), T.BinaryType) else 0

    def section(row: Row) -> bytes:
        body = row["body"]
        return sections.section(code if code and body is not None else sections.AMQP_VALUE, body)

    return section


def _map(name: str, kind: T.DataType) -> Callable[[Row | None], dict[str, Value]]:
    if not isinstance(kind, T.MapType) or not isinstance(kind.keyType, T.StringType):
        raise PipelineError(f"format scopegate: column {name} has to be a map of strings, not {kind.simpleString()}")
    convert = _scalar(name, kind.valueType)
    return lambda entries: {
        key: None if value is None else convert(value) for key, value in (entries or {}).items()
    }


def _scalar(name: str, kind: T.DataType) -> Convert:
    """The conversion of a Spark type to AMQP. Raises `PipelineError` for a type that AMQP does not have."""
    if isinstance(kind, T.StructType) and [field.name for field in kind] == list(columns.MEMBERS):
        return _value
    if (convert := _SCALARS.get(type(kind))) is None:
        text = f"column {name} has values of type {kind.simpleString()}, which AMQP does not have"
        raise PipelineError(f"format scopegate: {text}")
    return convert


def _value(value: Row) -> Value:
    """The AMQP value of a value struct (docs/columns.md). Raises `ValueError`."""
    name = value["type"]
    if name is None or name == "null":
        return None
    held = columns.TYPES.get(name, "binary")
    content = None if held is None else value[held]
    if name in _NUMBERS:
        return _NUMBERS[name](int(value["decimal"]) if content is None else content)
    if content is None or held == "decimal":
        raise ValueError(f"a value of type {name} cannot be written from columns, only in bare_message")
    if name == "symbol":
        return Symbol(content)
    if name == "float":
        return Float(content)
    if name == "uuid":
        return UUID(content)
    return content if held != "binary" or name == "binary" else decode_all(content)

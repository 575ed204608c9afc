"""Messages as JSON lines: one object of sections per line, for `receive -o json` and `send --json`.

The names of sections and fields are those of the YAML notation. A value that JSON has no type for is an object of one
key, its tag: `{"!uuid": "…"}`, `{"!timestamp": 0}`, `{"!binary": "0x00ff"}`, `{"!array": [...]}`. Without `typed`,
symbols and legible binaries are plain strings and numbers plain numbers; with it their tags are kept, so that
`send --json` sends the same values again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, TypeAlias

from gateway.amqp.codec import codec
from gateway.amqp.codec.types import MapKey, Value
from gateway.amqp.message import sections
from gateway.amqp.message.section_index import SectionOffsets
from gateway.cli import notation
from gateway.filters.decimals import decoded
from gateway.filters.evaluate.access import HEADER, PROPERTIES

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None


def read_line(line: str, number: int) -> bytes:
    """The encoded message of a line. Raises `notation.MessageFileError`, which names the line."""
    try:
        message = json.loads(line, object_hook=_tagged)
        if isinstance(message, dict) and "data" in message:
            message["data"] = _bodies(message["data"])
    except json.JSONDecodeError as error:
        raise notation.MessageFileError(f"line {number}, column {error.colno}: {error.msg}") from None
    except notation.MessageFileError as error:
        raise notation.MessageFileError(f"line {number}: {error}") from None
    return notation.encoded_message(message, f"on line {number}")


def _tagged(found: dict[str, Value]) -> Value:
    """The value of an object of one key that is a tag; another object unchanged."""
    if len(found) == 1:
        ((name, content),) = found.items()
        if name.startswith("!"):
            return notation.tagged_value(name[1:], content)
    return found


def _bodies(content: Value) -> Value:
    """Texts of data sections as bytes: in JSON, a text that begins with 0x is that text."""
    items = content if isinstance(content, list) else [content]
    if any(type(item) not in (str, bytes) for item in items):
        raise notation.MessageFileError('data is a text, {"!binary": "0x…"}, or a list of such')
    return [item.encode() if type(item) is str else item for item in items]


# -- writing


def message_object(data: bytes, *, typed: bool = False) -> dict[str, JsonValue]:
    """The sections of an encoded message by name, those that are there. Raises `AmqpError` for bytes that are none."""
    layout = sections.walk(data)
    writer = _Writer(typed)
    maps = {
        "header": writer.fields(HEADER, sections.header(data, layout)),
        "delivery-annotations": writer.entries(sections.delivery_annotations(data, layout)),
        "message-annotations": writer.entries(sections.message_annotations(data, layout)),
        "properties": writer.fields(PROPERTIES, _properties(data, layout)),
        "application-properties": writer.entries(sections.application_properties(data, layout), str),
    }
    found: dict[str, JsonValue] = {name: content for name, content in maps.items() if content}
    found |= writer.body(sections.body_kind(data, layout), sections.body_values(data, layout))
    if footer := writer.entries(sections.footer(data, layout)):
        found["footer"] = footer
    return found


def line_of(data: bytes, *, typed: bool = False) -> str:
    """A message as one line without its end."""
    return json.dumps(message_object(data, typed=typed), ensure_ascii=False, separators=(",", ":"))


def plain(value: Value) -> JsonValue:
    """A single value without the tags of symbols and numbers."""
    return _Writer(False).value(value)


def _properties(data: bytes, layout: SectionOffsets) -> list[Value]:
    view = sections.properties(data, layout)
    return [view.value(index) for index in range(len(PROPERTIES))]


class _Writer:
    """Values as JSON; `typed` keeps the tags of symbols and numbers."""

    def __init__(self, typed: bool) -> None:
        self._typed: Final = typed

    def fields(self, names: Sequence[str], values: Sequence[Value]) -> dict[str, JsonValue]:
        """The fields of a list that are not null; their types are known, except those of ids."""
        pairs = zip(names, values, strict=False)
        return {name: self._field(name, value) for name, value in pairs if value is not None}

    def _field(self, name: str, value: Value) -> JsonValue:
        return self.value(value) if name.endswith("-id") or not is_plain(value) else plain_scalar(value)

    def entries(self, found: Mapping[Value, Value], key: type = codec.Symbol) -> JsonValue:
        """A map whose keys should be of the type `key`."""
        if self._typed and not _reads_back(found, key):
            return self._pairs(found)
        return {_key_text(name): self.value(value) for name, value in found.items()}

    def _pairs(self, found: Mapping[Value, Value]) -> JsonValue:
        if any(isinstance(name, MapKey) for name in found):
            return _encoded(found)
        return {"!map": [[self.value(name), self.value(value)] for name, value in found.items()]}

    def body(self, kind: int, values: Sequence[Value]) -> dict[str, JsonValue]:
        """The body under the name of its sections; a list if there are several of data or of sequences."""
        if kind == sections.AMQP_VALUE:
            return {"amqp-value": self.value(values[0])}
        if kind == sections.DATA:
            found = [_text_or_binary(value) for value in values]
            return {"data": found[0] if len(found) == 1 else found}
        found = [self.value(item) for sequence in values for item in sequence]
        return {"amqp-sequence": found} if kind else {}

    def value(self, value: Value) -> JsonValue:
        """Any value."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return self.entries(value, str)
        if isinstance(value, codec.Described):
            return {"!described": [self.value(value.descriptor), self.value(value.value)]}
        if isinstance(value, codec.Array):
            return self._array(value)
        return self._tagged(value) if self._typed else plain_scalar(value)

    def _array(self, value: codec.Array) -> JsonValue:
        items: list[JsonValue] = [self.value(item) for item in value.items]
        if not self._typed:
            return items
        return {"!array": items} if _makes("array", list(value.items), value) else _encoded(value)

    def _tagged(self, value: Value) -> JsonValue:
        """A scalar with the tag of its type, if JSON does not tell it."""
        if (isinstance(value, bytes) and type(value) is not bytes) or isinstance(value, float):
            return _exact(value)
        if type(value) is bytes:
            return _binary(value)
        shown = plain_scalar(value)
        return shown if type(value) in _TYPES_OF_JSON else {f"!{notation.type_name(value)}": shown}


_TYPES_OF_JSON: Final = frozenset((type(None), bool, int, codec.Long, str))


def _exact(value: Value) -> JsonValue:
    """A float or decimal; one that text does not tell, such as a NaN with a payload, by its encoding."""
    shown, name = plain_scalar(value), notation.type_name(value)
    if not _makes(name, shown, value):
        return _encoded(value)
    return shown if type(value) is float and isfinite(value) else {f"!{name}": shown}


def _makes(tag: str, content: Value, value: Value) -> bool:
    """Whether the tag with this content is read as the value."""
    try:
        return codec.encode(notation.tagged_value(tag, content)) == codec.encode(value)
    except notation.MessageFileError:
        return False


def _encoded(value: Value) -> JsonValue:
    return {"!encoded": f"0x{codec.encode(value).hex()}"}


def _reads_back(found: Mapping[Value, Value], key: type) -> bool:
    """Whether an object of JSON with these keys is read as the map, and not as a tag."""
    return all(type(name) is key for name in found) and not (len(found) == 1 and next(iter(found)).startswith("!"))


def is_plain(value: Value) -> bool:
    """Whether `plain_scalar` takes the value."""
    return not isinstance(value, list | dict | codec.Array | codec.Described)


def plain_scalar(value: Value) -> JsonValue:
    """A scalar as the JSON type that is nearest: a number, a text, true, false or null."""
    if isinstance(value, bytes):
        return str(decoded(value) or "NaN") if type(value) is not bytes else _text_or_binary(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else str(float(value))
    return int(value) if isinstance(value, int) else str(value)


def _text_or_binary(value: bytes) -> JsonValue:
    """Bytes that are printable text as that text, others as hexadecimal digits."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _binary(value)
    return text if all(char.isprintable() or char in "\t\r\n" for char in text) else _binary(value)


def _binary(value: bytes) -> JsonValue:
    return {"!binary": f"0x{value.hex()}"}


def _key_text(key: Value) -> str:
    value = key.value if isinstance(key, MapKey) else key
    return str(value) if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)

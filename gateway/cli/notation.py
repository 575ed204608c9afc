"""Messages in YAML, for `scopegate send` and `filter` and the truth table of the filters: YAML to AMQP bytes.

A message is a mapping of its sections; a file may hold several, one YAML document each or named in one mapping. Plain
scalars are string, long, double, boolean and null; a tag gives any other type: `!ubyte 9`, `!symbol red`,
`!decimal64 1.50`, `!timestamp 0`, `!uuid …`, `!binary text`, `!array [!int 1, !int 2]`, `!described [!symbol x, 1]`,
`!map [[!int 1, a], [2, b]]` (a map by pairs, for keys that are no strings), and `!encoded 0x56…` (the AMQP encoding of
any value). Fields of header and properties have the types of the specification without a tag.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import Node

from gateway.amqp.codec import codec
from gateway.amqp.codec.types import Value, ValueList
from gateway.amqp.message import sections
from gateway.filters.decimals import encoded
from gateway.filters.evaluate.access import HEADER, PROPERTIES

Section: TypeAlias = Callable[[Value], bytes]
"""Encodes a section from its description in the file; raises ValueError, TypeError or AttributeError."""
Kind: TypeAlias = Callable[[Value], Value]
"""Makes a value of one AMQP type from a plain one; raises ValueError or TypeError."""
_GROUPS: Final = ("all-filter", "any-filter", "not-filter")


class MessageFileError(ValueError):
    """A mistake in a description, with line and column if they are known."""


def load_messages(text: str) -> dict[str, bytes]:
    """The messages of a file, encoded, by name: that of a mapping of messages, else their number from 1.

    Raises MessageFileError.
    """
    try:
        documents = [document for document in _yaml().load_all(text) if document is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{mark.line + 1}:{mark.column + 1}: " if mark else ""
        raise MessageFileError(f"{where}{error.problem or error}") from None
    if not documents:
        raise MessageFileError("there is no message")
    if len(documents) == 1 and isinstance(documents[0], dict) and not set(documents[0]) & set(_SECTIONS):
        return {str(name): encoded_message(message, str(name)) for name, message in documents[0].items()}
    return {str(number): encoded_message(message, str(number)) for number, message in enumerate(documents, 1)}


def load_value(text: str) -> Value:
    """One value of the same notation, as the codec has it; raises MessageFileError."""
    try:
        return _yaml().load(text)
    except MarkedYAMLError as error:
        raise MessageFileError(str(error.problem or error)) from None


def load_filter(text: str) -> Value:
    """A filter in the same notation, `sql-filter: a.n > 5` or a group of such, as a client sends it.

    Raises MessageFileError.
    """
    try:
        return codec.decode_all(codec.encode(_as_filter(load_value(text))))
    except (ValueError, TypeError) as error:
        raise MessageFileError(str(error)) from None


def _as_filter(value: Value) -> Value:
    """A filter as described value; anything but a mapping of one name is returned unchanged, and refused later."""
    if not (isinstance(value, dict) and len(value) == 1):
        return value
    ((name, content),) = value.items()
    if name in _GROUPS and isinstance(content, list):
        content = [_as_filter(member) for member in content]
    return codec.Described(codec.Symbol(name if ":" in str(name) else f"amqp:{name}"), content)


def encoded_message(message: Value, name: str) -> bytes:
    """The bytes of one message's description."""
    if not isinstance(message, dict):
        raise MessageFileError(f"message {name} is no mapping of sections ({', '.join(_SECTIONS)})")
    unknown = [str(key) for key in message if key not in _SECTIONS]
    if unknown:
        raise MessageFileError(f"message {name}: there is no section {unknown[0]}, but {', '.join(_SECTIONS)}")
    try:
        return b"".join(_SECTIONS[key](message[key]) for key in _SECTIONS if key in message)
    except (ValueError, TypeError, AttributeError) as error:
        raise MessageFileError(f"message {name}: {error}") from None


# -- sections


def _listed(code: int, fields: Mapping[str, Kind]) -> Section:
    def build(content: Value) -> bytes:
        given = content if isinstance(content, list) else _by_name(content, tuple(fields))
        if len(given) > len(fields):
            raise ValueError(f"there are {len(fields)} fields, and {len(given)} values")
        pairs = zip(fields.items(), given, strict=False)
        return sections.section(code, [_field(name, kind, value) for (name, kind), value in pairs])

    return build


def _by_name(content: dict[str, Value], names: tuple[str, ...]) -> ValueList:
    unknown = [str(name) for name in content if name not in names]
    if unknown:
        raise ValueError(f"there is no field {unknown[0]}, but {', '.join(names)}")
    last = max((names.index(name) for name in content), default=-1)
    return [content.get(name) for name in names[: last + 1]]


def _field(name: str, kind: Kind, value: Value) -> Value:
    try:
        typed = _typed(value, kind)
        codec.encode(typed)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    return typed


def _typed(value: Value, kind: Kind) -> Value:
    """A plain scalar as the field's type; null and tagged values unchanged."""
    return kind(value) if type(value) in (str, int) else value


def _mapped(code: int, key: Kind) -> Section:
    def build(content: Value) -> bytes:
        return sections.section(code, {_typed(name, key): value for name, value in content.items()})

    return build


def _key(name: Value) -> Value:
    return codec.Symbol(name) if type(name) is str else codec.Ulong(name)


def _binary(value: Value) -> bytes:
    return bytes.fromhex(value[2:]) if value[:2] == "0x" else str(value).encode()


def _data(content: Value) -> bytes:
    items = content if isinstance(content, list) else [content]
    return b"".join(sections.section(sections.DATA, _typed(item, _binary)) for item in items)


def _sequence(content: Value) -> bytes:
    return sections.section(sections.AMQP_SEQUENCE, content)


def _value(content: Value) -> bytes:
    return sections.section(sections.AMQP_VALUE, content)


_HEADER_TYPES: Final = (bool, codec.Ubyte, codec.Uint, bool, codec.Uint)
_PROPERTY_TYPES: Final = (
    str, _binary, str, str, str, str, codec.Symbol, codec.Symbol, codec.Timestamp, codec.Timestamp, str, codec.Uint,
    str,
)  # fmt: skip
_SECTIONS: Final[dict[str, Section]] = {
    "header": _listed(sections.HEADER, dict(zip(HEADER, _HEADER_TYPES, strict=True))),
    "delivery-annotations": _mapped(sections.DELIVERY_ANNOTATIONS, _key),
    "message-annotations": _mapped(sections.MESSAGE_ANNOTATIONS, _key),
    "properties": _listed(sections.PROPERTIES, dict(zip(PROPERTIES, _PROPERTY_TYPES, strict=True))),
    "application-properties": _mapped(sections.APPLICATION_PROPERTIES, str),
    "data": _data,
    "amqp-sequence": _sequence,
    "amqp-value": _value,
    "footer": _mapped(sections.FOOTER, _key),
}

# -- tags


def _decimal(kind: Callable[[bytes], Value], width: int) -> Kind:
    return lambda text: kind(encoded(Decimal(text), width))


def _array(items: ValueList) -> codec.Array:
    kinds = {_KINDS.get(type(item), "") for item in items} or {"null"}
    if len(kinds) > 1 or "" in kinds:
        raise ValueError("the items of an array are scalars of one type")
    return codec.Array(kinds.pop(), tuple(items))


def _described(items: ValueList) -> codec.Described:
    if len(items) != 2:
        raise ValueError("!described has a descriptor and a value")
    return codec.Described(*items)


def _pairs(items: ValueList) -> Value:
    try:
        return dict(items)
    except (TypeError, ValueError):
        raise ValueError("!map has a list of pairs, [[key, value], ...]") from None


_TAGS: Final[dict[str, Kind]] = {
    "ubyte": lambda text: codec.Ubyte(text),
    "ushort": lambda text: codec.Ushort(text),
    "uint": lambda text: codec.Uint(text),
    "ulong": lambda text: codec.Ulong(text),
    "byte": lambda text: codec.Byte(text),
    "short": lambda text: codec.Short(text),
    "int": lambda text: codec.Int(text),
    "long": lambda text: codec.Long(text),
    "float": lambda text: codec.Float(text),
    "double": float,
    "decimal32": _decimal(codec.Decimal32, 4),
    "decimal64": _decimal(codec.Decimal64, 8),
    "decimal128": _decimal(codec.Decimal128, 16),
    "timestamp": lambda text: codec.Timestamp(text),
    "uuid": uuid.UUID,
    "binary": _binary,
    "char": codec.Char,
    "symbol": codec.Symbol,
    "string": str,
    "array": _array,
    "described": _described,
    "map": _pairs,
    "encoded": lambda text: codec.decode_all(_binary(text)),
}
_KINDS: Final[dict[type, str]] = {
    codec.Ubyte: "ubyte", codec.Ushort: "ushort", codec.Uint: "uint", codec.Ulong: "ulong", codec.Byte: "byte",
    codec.Short: "short", codec.Int: "int", codec.Long: "long", int: "long", codec.Float: "float", float: "double",
    bool: "boolean", str: "string", codec.Symbol: "symbol", bytes: "binary", codec.Timestamp: "timestamp",
    uuid.UUID: "uuid", codec.Char: "char",
}  # fmt: skip
_NAMES: Final = _KINDS | {
    codec.Decimal32: "decimal32", codec.Decimal64: "decimal64", codec.Decimal128: "decimal128",
}  # fmt: skip


class _Constructor(SafeConstructor):
    """A separate class, because tags are added to the class and must not affect other readers."""


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    return yaml


def _tagged(loader: SafeConstructor, tag: str, node: Node) -> Value:
    value = node.value if isinstance(node.value, str) else loader.construct_sequence(node, deep=True)
    try:
        return tagged_value(tag, value)
    except MessageFileError as error:
        raise MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None


def tagged_value(tag: str, value: Value) -> Value:
    """The value of the AMQP type that the tag names. Raises MessageFileError."""
    make = _TAGS.get(tag)
    if make is None:
        raise MessageFileError(f"there is no type !{tag}, but {', '.join(f'!{name}' for name in _TAGS)}")
    try:
        result = make(value)
        codec.encode(result)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise MessageFileError(f"no {tag}: {error}") from None
    return result


def type_name(value: Value) -> str:
    """The tag of a scalar's type."""
    return _NAMES[type(value)]


_Constructor.add_multi_constructor("!", _tagged)

"""A message as one row of columns: the layout that record batches, the Spark source and the archive share.

docs/columns.md specifies it. `head` and `bare_message` together are the message byte for byte; every other column is a
view of them for queries. Pure: names, types and the names of entries; `rows` fills the columns, `filters` read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.filters.predicate import FieldReference, Literal, MessageSection

MEMBERS: Final = {
    "type": "string",
    "boolean": "boolean",
    "long": "bigint",
    "double": "double",
    "decimal": "decimal(38,18)",
    "text": "string",
    "uuid": "string",
    "binary": "binary",
}
"""The members of a value: the name of its AMQP type, and one for each Spark type, of which one is not null."""

VALUE: Final = f"struct<{','.join(f'{name}:{kind}' for name, kind in MEMBERS.items())}>"
ENTRIES: Final = f"map<string,{VALUE}>"

HEADER: Final = {
    "durable": "boolean",
    "priority": "int",
    "ttl": "bigint",
    "first_acquirer": "boolean",
    "delivery_count": "bigint",
}
PROPERTIES: Final = {
    "message_id": VALUE,
    "user_id": "binary",
    "to": "string",
    "subject": "string",
    "reply_to": "string",
    "correlation_id": VALUE,
    "content_type": "string",
    "content_encoding": "string",
    "absolute_expiry_time": "bigint",
    "creation_time": "bigint",
    "group_id": "string",
    "group_sequence": "bigint",
    "reply_to_group_id": "string",
}
"""Fields of the fixed sections, in the specification's order with `_` for `-`; times are milliseconds since 1970."""
TIMES: Final = ("absolute_expiry_time", "creation_time")
"""Properties that are timestamps."""
DEFAULTS: Final = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}
"""The defaults of absent header fields (FX-4-4): the column has null, filters use these values."""


def _struct(fields: dict[str, str]) -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields.items())}>"


COLUMNS: Final = {
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "header": _struct(HEADER),
    "delivery_annotations": ENTRIES,
    "message_annotations": ENTRIES,
    "properties": _struct(PROPERTIES),
    "application_properties": ENTRIES,
    "body_kind": "string",
    "body": "binary",
    "body_value": VALUE,
    "body_fields": ENTRIES,
    "footer": ENTRIES,
    "head": "binary",
    "bare_message": "binary",
    "not_shown": "array<string>",
}
"""Every column and its Spark type."""



def ddl(names: Iterable[str]) -> str:
    """The schema of these columns as Spark reads it."""
    return ", ".join(f"`{name}` {COLUMNS[name]}" for name in names)


DDL: Final = ddl(COLUMNS)
"""The schema of all columns."""

SECTIONS: Final = {
    MessageSection.HEADER: "header",
    MessageSection.DELIVERY_ANNOTATIONS: "delivery_annotations",
    MessageSection.MESSAGE_ANNOTATIONS: "message_annotations",
    MessageSection.PROPERTIES: "properties",
    MessageSection.APPLICATION_PROPERTIES: "application_properties",
    MessageSection.AMQP_VALUE: "body_fields",
    MessageSection.FOOTER: "footer",
}
"""The column of each section; amqp-sequence has none, because nothing in it has a name (FX-5-24)."""

TYPES: Final = {
    "null": None,
    "boolean": "boolean",
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "timestamp"), "long"),
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("decimal32", "decimal64", "decimal128"), "decimal"),
    **dict.fromkeys(("string", "symbol"), "text"),
    "uuid": "uuid",
    **dict.fromkeys(("binary", "char", "list", "map", "array", "described"), "binary"),
}
"""The member for each AMQP type. An ulong that is not a long is in `decimal`; a decimal that does not fit 38 digits, 18
of them after the point, is in `binary`, which has the AMQP encoding of all values except binaries."""

DEPTH: Final = 8
ENTRIES_LIMIT: Final = 256
NAME_LIMIT: Final = 1024
"""Limits of nested values: steps below an entry, nested entries of a section, characters of a name."""

_DELIMITED: Final = frozenset(".[]")


def step(key: str) -> str:
    """A key as part of the name of an entry: in brackets if it has a dot or bracket, or is empty."""
    if key and _DELIMITED.isdisjoint(key):
        return key
    return f"[{key.replace('[', '[[').replace(']', ']]')}]"


def entry(section: MessageSection, name: str, path: tuple[str | int, ...] = ()) -> str:
    """The key in the column of its section: `sku`, `order.id`, `items[0].sku`, `order.[a.b]`.

    Application properties are scalars (AMQP 3.2.5), so their names are unchanged, including dots and brackets.
    """
    if not path:
        return name if section is MessageSection.APPLICATION_PROPERTIES else step(name)
    steps = "".join(f"[{key}]" if isinstance(key, int) else f".{step(key)}" for key in path)
    return step(name) + steps


def member(name: str, fields: dict[str, str]) -> str:
    """The member for a field of a section with fixed fields; empty for any other name."""
    found = name.replace("-", "_")
    return found if found in fields and "_" not in name else ""


def promoted(field: FieldReference) -> str:
    """The name of a column with just this field, such as `application_properties.color`; empty if there can be none."""
    path = steps(field)
    if path is None or field.section not in SECTIONS:
        return ""
    return f"{SECTIONS[field.section]}.{entry(field.section, field.name, path)}"


def steps(field: FieldReference) -> tuple[str | int, ...] | None:
    """The path of a field as keys and indexes; `None`: an index is not an integer, so the path selects nothing."""
    found: list[str | int] = []
    for item in field.path:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Literal) and type(item.value) is int and item.value >= 0:
            found.append(item.value)
        else:
            return None
    return tuple(found)

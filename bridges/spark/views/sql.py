"""The views of an archive as SQL: one for each address, with columns of plain types instead of AMQP's (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bridges.spark.archive.contents.file_layout import ENTRIES
from bridges.spark.columns.schema import TYPES
from bridges.spark.views.dialects import Dialect, Field
from bridges.spark.views.json_type import TEXT, JsonType
from bridges.spark.views.profile import AddressProfile

PROPERTIES: Final = 300
"""Maximum number of properties in a view: an address with more uses data as names; the most frequent are shown."""
_AS_TEXT: Final = ("text", "long", "double", "decimal", "boolean", "uuid")
_KINDS: Final = {"long": "bigint", "double": "double", "decimal": "decimal", "boolean": "boolean"}


def view(profile: AddressProfile, name: str, dialect: Dialect, schema: JsonType | None = None) -> str:
    """`CREATE OR REPLACE VIEW` for one address; `schema` is the type of its JSON bodies, else that of the sample."""
    columns = list(_columns(profile, dialect, schema))
    lines = ",\n".join(f"  {value} AS {dialect.name(column)}" for column, value in columns)
    address = json.dumps(profile.address)  # ASCII, on one line
    source = dialect.source(profile.folder, mixed=len(profile.layouts) > 1)
    return f"-- {address}\nCREATE OR REPLACE VIEW {dialect.name(name)} AS SELECT\n{lines}\nFROM {source};\n"


def view_names(addresses: Sequence[str], prefix: str = "") -> list[str]:
    """The names of the views: Spark's catalog allows ASCII letters, digits and `_`; others become `_`."""
    return distinct([re.sub("[^0-9A-Za-z_]", "_", prefix + each) or "_" for each in addresses])


def distinct(names: Sequence[str]) -> list[str]:
    """Names made unique regardless of case, which both engines ignore; none is empty."""
    used: set[str] = set()
    found = []
    for name in names:
        wanted = name or "(empty)"
        fresh, number = wanted, 1
        while fresh.casefold() in used:
            number += 1
            fresh = f"{wanted}_{number}"
        used.add(fresh.casefold())
        found.append(fresh)
    return found


def distinct_fields(kind: JsonType) -> JsonType:
    """The type without fields whose names differ from an earlier one only in case, which engines ignore."""
    fields: dict[str, JsonType] = {}
    used: set[str] = set()
    for name, each in kind.fields.items():
        if name and name.casefold() not in used:
            used.add(name.casefold())
            fields[name] = distinct_fields(each)
    if kind.kind == "struct" and not fields:
        return TEXT
    element = None if kind.element is None else distinct_fields(kind.element)
    return JsonType(kind.kind, fields, element)


def _columns(profile: AddressProfile, sql: Dialect, schema: JsonType | None) -> Iterable[Field]:
    for name in ("partition", "offset", "timestamp"):
        yield name, sql.name(name)
    yield "date", sql.cast(sql.name("date"), "date")
    yield "key", sql.decoded("key") if profile.text_keys else "key"
    if properties := _properties(profile, sql):
        yield "props", sql.struct(properties)
    for field in ("subject", "to", "reply_to", "content_type"):
        yield field, f"properties.{sql.name(field)}"
    for field in ("message_id", "correlation_id"):
        yield field, _either(profile, sql, f"properties.{field}", lambda value: _as_text(value, sql))
    value = _either(profile, sql, "body_value", lambda value: f"{value}.text")
    text = f"CASE WHEN body_kind = 'data' THEN {sql.decoded('body')} ELSE {value} END"
    yield "body", text if profile.text_bodies and not profile.has_schema_ids else "body"
    if profile.has_schema_ids:
        yield "schema_id", sql.schema_id("body")
        text = sql.decoded(sql.payload("body"))
    kind = schema or (profile.json if profile.is_json else None)
    if kind is not None and profile.text_bodies:
        shown, mistake = sql.parsed(text, distinct_fields(kind))
        yield "json", shown
        yield "json_mistake", mistake


def _either(profile: AddressProfile, sql: Dialect, column: str, shown: Callable[[str], str]) -> str:
    """The expression for a value that files have in an entry of this name, or older files in this column."""
    places = [sql.entry(ENTRIES, column)] if True in profile.layouts else []
    if False in profile.layouts:
        struct, dot, field = column.partition(".")
        # duckdb 2.0 fails on a field of a field that some files lack, unless it reads the whole struct
        places.append(f"(CASE WHEN partition IS NOT NULL THEN {struct} END){dot}{field}" if places else column)
    return shown(places[0]) if len(places) == 1 else f"coalesce({', '.join(map(shown, places))})"


def _properties(profile: AddressProfile, sql: Dialect) -> list[Field]:
    frequent = sorted(profile.properties, key=lambda name: (-profile.properties[name].total(), name))[:PROPERTIES]
    names = sorted(frequent)
    values = [_value(sql.entry("application_properties", name), set(profile.properties[name]), sql) for name in names]
    return list(zip(distinct(names), values, strict=True))


def _value(entry: str, types: set[str], sql: Dialect) -> str:
    """The column of a property, by its AMQP types; with several types, it is text."""
    members = {TYPES.get(each) for each in types} - {None}
    if types - {"null"} == {"timestamp"}:
        return sql.milliseconds(f"{entry}.long")
    if "ulong" in types and members == {"long"}:
        return f"coalesce({sql.cast(f'{entry}.long', 'ulong')}, {sql.cast(f'{entry}.decimal', 'ulong')})"
    if len(members) == 1:
        (member,) = members
        assert member is not None
        return sql.cast(f"{entry}.{member}", _KINDS[member]) if member in _KINDS else f"{entry}.{member}"
    return _as_text(entry, sql)


def _as_text(entry: str, sql: Dialect) -> str:
    parts = [f"{entry}.text" if each == "text" else sql.cast(f"{entry}.{each}", "text") for each in _AS_TEXT]
    return f"coalesce({', '.join([*parts, f'hex({entry}.binary)'])})"

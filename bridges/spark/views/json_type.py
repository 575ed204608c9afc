"""Types of JSON, inferred from documents or read from a JSON Schema, to be used as SQL types (pure).

Where documents disagree, the type is text, so that no value in them becomes null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from bridges.spark.errors import PipelineError

Kind = Literal["null", "boolean", "bigint", "double", "text", "struct", "array"]
DEPTH: Final = 8
"""Maximum nesting depth; anything deeper is text."""
FIELDS: Final = 500
"""Maximum number of fields; a larger object is probably a map with data as keys, and becomes text."""
_LONG: Final = 1 << 63
_SCHEMA_KINDS: Final[Mapping[str, Kind]] = {
    "null": "null", "boolean": "boolean", "integer": "bigint", "number": "double", "string": "text",
}  # fmt: skip


@dataclass(frozen=True)
class JsonType:
    """The type of a JSON value; any of them may be null."""

    kind: Kind
    fields: Mapping[str, JsonType] = field(default_factory=dict)
    element: JsonType | None = None


NULL: Final = JsonType("null")
TEXT: Final = JsonType("text")


def type_of(value: object, depth: int = DEPTH) -> JsonType:
    """The type of one document, as `json.loads` returns it."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return JsonType("boolean")
    if isinstance(value, int):
        return JsonType("bigint") if -_LONG <= value < _LONG else TEXT
    if isinstance(value, float):
        return JsonType("double")
    if isinstance(value, dict) and value and depth and len(value) <= FIELDS:
        return JsonType("struct", {name: type_of(each, depth - 1) for name, each in value.items()})
    if isinstance(value, list) and depth:
        return JsonType("array", element=merged_all(type_of(each, depth - 1) for each in value))
    return TEXT


def merged_all(types: Iterable[JsonType]) -> JsonType:
    """The common type of all of these; null if there are none."""
    found = NULL
    for each in types:
        found = merged(found, each)
    return found


def merged(one: JsonType, other: JsonType) -> JsonType:
    """A type that holds values of both."""
    if one == other or other.kind == "null":
        return one
    if one.kind == "null":
        return other
    if one.kind == other.kind == "struct":
        names = [*one.fields, *(name for name in other.fields if name not in one.fields)]
        if len(names) > FIELDS:
            return TEXT
        return JsonType(
            "struct", {name: merged(one.fields.get(name, NULL), other.fields.get(name, NULL)) for name in names}
        )
    if one.kind == other.kind == "array":
        return JsonType("array", element=merged(one.element or NULL, other.element or NULL))
    return JsonType("double") if {one.kind, other.kind} == {"bigint", "double"} else TEXT


def from_schema(text: str) -> JsonType:
    """The type that a JSON Schema describes, which must be that of an object. Raises `PipelineError`."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise PipelineError(f"not JSON ({error})") from None
    found = _of_schema(schema, schema, DEPTH)
    if found.kind != "struct":
        raise PipelineError("the JSON Schema does not describe an object with properties")
    return found


def _of_schema(schema: object, root: object, depth: int) -> JsonType:
    """Convert a schema; keywords that only restrict values are ignored."""
    if not isinstance(schema, dict) or not depth:
        return TEXT
    if isinstance(reference := schema.get("$ref"), str):
        return _of_schema(_resolved(reference, root), root, depth - 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list):
            return merged_all(_of_schema(each, root, depth - 1) for each in schema[name])
    kinds = schema.get("type", "object" if "properties" in schema else None)
    found = [_of_kind(kind, schema, root, depth) for kind in (kinds if isinstance(kinds, list) else [kinds])]
    return merged_all(found)


def _of_kind(kind: object, schema: Mapping[str, object], root: object, depth: int) -> JsonType:
    if kind == "object":
        fields = schema.get("properties")
        if not isinstance(fields, dict) or not fields or len(fields) > FIELDS:
            return TEXT
        return JsonType("struct", {name: _of_schema(each, root, depth - 1) for name, each in fields.items()})
    if kind == "array":
        return JsonType("array", element=_of_schema(schema.get("items"), root, depth - 1))
    return JsonType(_SCHEMA_KINDS.get(str(kind), "text"))


def _resolved(reference: str, root: object) -> object:
    if not reference.startswith("#"):
        raise PipelineError(f"the JSON Schema refers to {reference}: only references within the file are supported")
    found = root
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise PipelineError(f"the JSON Schema has no {reference}")
        found = found[name]
    return found

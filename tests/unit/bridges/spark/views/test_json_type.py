"""Types of JSON documents, and those that a JSON Schema describes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridges.spark.errors import PipelineError
from bridges.spark.views.json_type import DEPTH, FIELDS, JsonType, from_schema, merged_all, type_of


def shape(found: JsonType) -> Any:
    """A type in short."""
    if found.kind == "struct":
        return {name: shape(each) for name, each in found.fields.items()}
    return [shape(found.element or JsonType("null"))] if found.kind == "array" else found.kind


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"a": 1}, {"a": 2, "b": "x"}], {"a": "bigint", "b": "text"}),
        ([{"a": 1}, {"a": 1.5}], {"a": "double"}),
        ([{"a": 1}, {"a": "x"}], {"a": "text"}),
        ([{"a": None}, {"a": True}], {"a": "boolean"}),
        ([{"a": {"b": 1}}, {"a": [1]}], {"a": "text"}),
        ([{"a": [1, None]}, {"a": [2.5]}, {"a": []}], {"a": ["double"]}),
        ([{"a": 1 << 63}], {"a": "text"}),
        ([{"a": {}}], {"a": "text"}),
        ([{f"k{number}": 1 for number in range(FIELDS)}, {"other": 1}], "text"),
        ([], "null"),
    ],
)
def test_documents(documents: list[Any], expected: Any) -> None:
    assert shape(merged_all(map(type_of, documents))) == expected


def test_depth_is_bounded() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"a": deep}
    found, levels = type_of(deep), 0
    while found.kind == "struct":
        found, levels = found.fields["a"], levels + 1
    assert (levels, found.kind) == (DEPTH, "text")


def test_a_schema() -> None:
    schema = {
        "$defs": {"money/eur": {"type": "number"}},
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1}, "name": {"type": ["string", "null"]},
            "price": {"$ref": "#/$defs/money~1eur"}, "tags": {"type": "array", "items": {"type": "string"}},
            "to": {"properties": {"city": {"type": "string"}}}, "any": {}, "both": {"anyOf": [{"type": "integer"},
            {"type": "string"}]}, "map": {"type": "object", "additionalProperties": True},
        },
    }  # fmt: skip
    assert shape(from_schema(json.dumps(schema))) == {
        "id": "bigint", "name": "text", "price": "double", "tags": ["text"], "to": {"city": "text"}, "any": "text",
        "both": "text", "map": "text",
    }  # fmt: skip


def test_a_schema_that_contains_itself_ends() -> None:
    found = from_schema('{"type": "object", "properties": {"next": {"$ref": "#"}}}')
    assert found.kind == "struct"


@pytest.mark.parametrize(
    ("schema", "message"),
    [("{", "not JSON"), ('{"type": "string"}', "does not describe an object"), ("[]", "does not describe an object"),
     ('{"$ref": "other.json"}', "refers to other.json"), ('{"$ref": "#/no"}', "has no #/no")],
)  # fmt: skip
def test_mistakes(schema: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        from_schema(schema)

"""The reference of every key as Markdown (docs/policy.md), made from the JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from policies.schema import json_schema

_TITLE: Final = """# The policy file

Made by `scopegate schema --markdown`; the same as JSON Schema: `policies/schema.json`, `scopegate schema`.
Examples: `policies/examples/`. `scopegate check FILE` reports every mistake with its place,
`scopegate explain` says which line decides.

Durations and sizes have units (`250ms`, `10s`, `5m`; `64KiB`, `16MiB`). Secrets are `{env: NAME}` or
`{file: path}`, never the secret itself. Paths start at the directory of the policy file. Every key has a
default except `scopes` and those marked required, which say what their entry is about.

Patterns: an address is cut at `/`. `{name}` takes one segment or, as in `orders-{n}`, part of one; `*` takes
one segment; a last `**` takes the rest, which may be nothing. Addresses are literal: `*`, `..` and `%2e` in
an address mean nothing. An address that is empty, longer than 1024 characters or holds control characters
matches nothing, and a topic that Kafka could not have is not found. `<address>/$info` of an address that leads to
Kafka, in its own scope or behind relays into others, is its `$info` service and needs the right `info` there.
"""
_TOP: Final = "Policy"


def markdown() -> str:
    """The whole page."""
    schema = json_schema()
    defs: dict[str, Any] = schema.pop("$defs")
    sections = [_section(name, defs[name]) for name in _order(schema, defs)]
    return "\n".join([_TITLE, _section(_TOP, schema), *sections])


def _order(schema: dict[str, Any], defs: dict[str, Any]) -> list[str]:
    """Sections in the order in which they are first mentioned."""
    names: list[str] = []
    waiting = _references(schema)
    while waiting:
        name = waiting.pop(0)
        if name not in names:
            names.append(name)
            waiting = _references(defs[name]) + waiting
    return names


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else []
        return own + [name for value in node.values() for name in _references(value)]
    return [name for value in node for name in _references(value)] if isinstance(node, list) else []


def _section(name: str, schema: dict[str, Any]) -> str:
    return "\n".join([f"## {name}\n", f"{schema['description']}\n", *_rows(schema), ""])


def _rows(schema: dict[str, Any]) -> Iterator[str]:
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    required = schema.get("required", [])
    for key, value in schema["properties"].items():
        default = "required" if key in required else _default(value)
        cells = [f"`{key}`", _form(value), default, value.get("description", "")]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    if default in (None, [], {}):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _form(value: dict[str, Any]) -> str:
    """The kind of value in a few words."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key, word in (("anyOf", " or "), ("oneOf", " or ")):
        if key in value:
            return word.join(dict.fromkeys(_form(form) for form in value[key] if form.get("type") != "null"))
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"] if item == item.lower())
    if "const" in value:
        return f"`{value['const']}`"
    return _typed(value)


def _typed(value: dict[str, Any]) -> str:
    kind = value.get("type", "")
    if kind == "array":
        return f"list of {_form(value['items'])}"
    if kind == "object":
        free = [value.get("additionalProperties"), *value.get("patternProperties", {}).values()]
        return "name: " + next(_form(form) for form in free if isinstance(form, dict))
    if kind == "string" and "examples" in value:
        return ", ".join(f"`{example}`" for example in value["examples"])
    if not isinstance(kind, str):
        return " or ".join(_typed({"type": one}) for one in kind)
    words = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}
    return words[kind]

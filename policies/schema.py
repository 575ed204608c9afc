"""The JSON Schema of the policy file, and lookups in it: the keys allowed at a place, the nearest known key."""

from __future__ import annotations

import difflib
import json
from bisect import bisect_left
from functools import cache

from pydantic.json_schema import JsonSchemaValue

from policies.model.policy import Policy
from policies.text.diagnostics import Loc
from policies.values.base import SectionSchema

_COMPARED = 50
"""Names that are compared with a name that is wrong."""


class _Generate(SectionSchema):
    """Without the titles that pydantic makes from names: they add nothing."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


@cache
def _schema() -> JsonSchemaValue:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ScopeGate policy file"}
    return head | Policy.model_json_schema(schema_generator=_Generate) | head


def json_schema() -> JsonSchemaValue:
    """The published schema (policies/schema.json, `scopegate schema`)."""
    return json.loads(json.dumps(_schema()))  # type: ignore[no-any-return]


def node_at(loc: Loc) -> JsonSchemaValue:
    """The schema of the value at `loc`, whose parts like `<RelayRule>` choose a form; {} where unknown."""
    node = _resolved(_schema())
    for part in loc:
        node = _resolved(_down(node, part))
    return node


def is_form(part: str | int) -> bool:
    """Whether a part of a location chooses a form; a key of the file may begin with `<`, too."""
    if not isinstance(part, str) or not (part.startswith("<") and part.endswith(">")):
        return False
    return part == "<text>" or part[1:-1] in _schema()["$defs"]


def _down(node: JsonSchemaValue, part: str | int) -> object:
    if isinstance(part, int):
        return node.get("items", {})
    if is_form(part):
        return _schema()["$defs"].get(part[1:-1], {})
    free = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    return node.get("properties", {}).get(part) or next((form for form in free if isinstance(form, dict)), {})


def _resolved(node: object) -> JsonSchemaValue:
    """Follow references and look through "or nothing" and "or a list of them"."""
    if not isinstance(node, dict):
        return {}
    if "$ref" in node:
        return _resolved(_schema()["$defs"][node["$ref"].rsplit("/", 1)[1]])
    forms = [form for form in node.get("anyOf", ()) if form.get("type") != "null"]
    return _resolved(forms[-1]) if forms else node


def allowed_keys(loc: Loc) -> list[str]:
    """The keys that the section at `loc` may have."""
    return list(node_at(loc).get("properties", {}))


def nearest(key: str, known: list[str]) -> str | None:
    """The known key that is most like `key`; None if none is. Of very many, its neighbours in the alphabet count."""
    wanted = _folded(key)
    folded = {_folded(name): name for name in known}
    if len(folded) > _COMPARED:
        order = sorted(folded)
        at = max(bisect_left(order, wanted) - _COMPARED // 2, 0)
        folded = {name: folded[name] for name in order[at : at + _COMPARED]}
    found = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")

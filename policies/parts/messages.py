"""Turns pydantic's errors into sentences: the mistake, and what is allowed instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from policies.schema import allowed_keys, is_form, nearest, node_at
from policies.text.diagnostics import Diagnostic, Loc
from policies.text.tree import Tree
from policies.values.units import with_unit

# Keys that a later version may have: their message differs from that of unknown keys.
_NOT_YET: Final = {
    "create": "this version creates topics only by kafka.<name>.topics (embedded); leave the key out",
    "annotate": "this version always annotates event-stream deliveries; leave the key out",
}
_ACTIONS: Final = {
    "read": "receive", "consume": "receive", "write": "send", "publish": "send", "produce": "send",
    "all": "[send, receive]", "*": "[send, receive]", "both": "[send, receive]",
}  # fmt: skip
"""Words of other products for actions."""
_TYPES: Final = {
    "string": "text (put it in quotes)",
    "bool": "true or false",
    "int": "a whole number",
    "dict": "a section (key: value)",
    "model": "a section (key: value)",
    "tuple": "a list",
    "list": "a list",
}
_ADDRESS_KEYS: Final = ("<DirectRule>", "<RelayRule>", "<KafkaRule>", "<ServiceRule>", "<RedirectRule>")


def model_problems(error: ValidationError, tree: Tree) -> Iterator[Diagnostic]:
    """Every structural mistake, except those that only repeat a mistake in an inner value."""
    details = error.errors(include_url=False, include_input=True)
    places = [_clean(detail["loc"]) for detail in details]
    for detail, (loc, key) in zip(details, places, strict=True):
        follows = any(len(other) > len(loc) and other[: len(loc)] == loc for other, _ in places)
        if not (detail["type"] == "too_short" and follows):
            at_key = key or detail["type"] == "extra_forbidden"
            yield tree.locate(Diagnostic(file_loc(loc, at_key=at_key), _message(detail, loc), at_key))


def _clean(loc: Loc) -> tuple[Loc, bool]:
    """The place, and whether the mistake is in its key."""
    return (loc[:-1], True) if loc and loc[-1] == "[key]" else (loc, False)


def file_loc(loc: Loc, *, at_key: bool) -> Loc:
    """Pydantic's location as a place in the file: without parts like `<RelayRule>` that choose between forms.

    With `at_key` the last part is a key of the file, whatever it looks like.
    """
    ends = loc[-1:] if at_key else ()
    return tuple(part for part in loc[: len(loc) - len(ends)] if not is_form(part)) + ends


def _message(detail: ErrorDetails, loc: Loc) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(str(loc[-1]), allowed_keys(loc[:-1]))
    if kind == "missing":
        return f"missing, and required{_about(loc)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"not one of the values allowed here{_meant(detail['input'], loc)} (allowed: {_values(loc, context)})"
    if kind == "address_kind":
        return detail["msg"] + _typo(detail["input"])
    if kind.endswith("_type"):
        return f"must be {_TYPES.get(kind.removesuffix('_type'), 'something else')}{_allowed(loc)}"
    return _limit(kind, context, loc) or detail["msg"]


def _unknown(key: str, known: list[str]) -> str:
    if key in _NOT_YET and key not in known:
        return f"not in this version: {_NOT_YET[key]} (allowed: {', '.join(known)})"
    return f"unknown key{_guess_of(nearest(key, known))} (allowed: {', '.join(known)})"


def _about(loc: Loc) -> str:
    text = node_at(loc[:-1]).get("properties", {}).get(loc[-1], {}).get("description")
    return f": {text}" if text else ""


def _meant(value: object, loc: Loc) -> str:
    """A guess at the allowed word that was meant."""
    if not isinstance(value, str):
        return ""
    if "may" in loc and value.lower() in _ACTIONS:
        return f"; did you mean {_ACTIONS[value.lower()]}?"
    return _guess_of(nearest(value, [str(each) for each in node_at(loc).get("enum", ())]))


def _guess_of(name: str | None) -> str:
    return f"; did you mean {name}?" if name else ""


def _values(loc: Loc, context: Mapping[str, object]) -> str:
    node = node_at(loc)
    values = node.get("enum") or [node[key] for key in ("const",) if key in node]
    # Mechanisms are also accepted in capitals; listing them once is enough.
    small = [value for value in values if value == value.lower()]
    return ", ".join(small) or str(context["expected"])


def _allowed(loc: Loc) -> str:
    keys = allowed_keys(loc)
    return f" (allowed: {', '.join(keys)})" if keys else ""


def _typo(value: object) -> str:
    """Hints for an entry without any known key: it may be misspelled."""
    if not isinstance(value, dict):
        return " (a section with match and one of them)"
    if "topic" in value and "kafka" not in value:
        return "; topic needs kafka, the name of a cluster"
    known = list(dict.fromkeys(key for form in _ADDRESS_KEYS for key in allowed_keys((form,))))
    unknown = [key for key in value if key not in known]
    return "".join(f"; {key} is unknown{_guess(nearest(key, known))}" for key in unknown)


def _guess(name: str | None) -> str:
    return f", did you mean {name}?" if name else ""


def _limit(kind: str, context: Mapping[str, object], loc: Loc) -> str | None:
    written = {name: _written(value, loc) for name, value in context.items()}
    texts = {
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le}",
        "too_short": "must not be empty",
        "string_too_short": "must not be empty",
        "string_too_long": "must have at most {max_length} characters",
        "string_pattern_mismatch": "must be {form} (allowed: {pattern})",
    }
    return texts[kind].format(**written, form=_form(str(context.get("pattern")))) if kind in texts else None


def _written(value: object, loc: Loc) -> object:
    """A limit as the file has to say it: with a unit where the value needs one."""
    node = node_at(loc)
    patterns = [each["pattern"] for each in (node, *node.get("anyOf", ())) if "pattern" in each]
    return with_unit(value, patterns[0]) if isinstance(value, int) and patterns else value


def _form(pattern: str) -> str:
    if pattern.startswith("^https?:"):
        return "a URL such as https://host.example:9000"
    return "a name of letters, digits, _, . and -" if "A-Za-z0-9._-" in pattern else "of the form that is allowed"

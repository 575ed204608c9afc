"""Checks for the settings of several protocols. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from bridges.cloudevents.model.members import Check, InvalidMember, object_value
from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import Json

MAX_ENTRIES: Final = 64
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
CONTEXT_ATTRIBUTES: Final = frozenset(
    ("id", "source", "type", "specversion", "subject", "time", "dataschema", "datacontenttype")
)
"""Attributes of the specification, which settings may not override."""


def text_map(longest: int, reserved: Collection[str] = ()) -> Check[tuple[tuple[str, str], ...]]:
    """Check for an object whose values are strings; raises `InvalidMember` at the first that is not."""

    def entries(value: Json) -> Iterator[tuple[str, str]]:
        found = object_value(value)
        if len(found) > MAX_ENTRIES:
            raise InvalidMember(f"at most {MAX_ENTRIES} entries")
        for name, item in found.items():
            below = pointer(name)
            if not 0 < len(name) <= 255 or _CONTROL.search(name):
                raise InvalidMember("a name of 1 to 255 characters without control characters", below)
            if name in reserved:
                raise InvalidMember("this is an attribute of the event", below)
            if not isinstance(item, str) or len(item) > longest or "\x00" in item:
                raise InvalidMember(f"text of at most {longest} characters", below)
            yield name, item

    return lambda value: tuple(entries(value))

"""Hostile objects of 64 KiB: reading them takes little processor time, and the answer is not longer than they are."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest

from bridges.cloudevents.subscription.parse import MAX_MISTAKES
from tests.support.cloudevents.objects import AMQP, HTTP, mistakes_of, with_settings

SIZE: Final = 64 * 1024
SECONDS: Final = 1.0
"""Of processor time: one of these took 12 s, the others take 25 ms at most."""


def _body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


HOSTILE: Final = {
    "text without end": b'{"a":"' + b'\\"' * (SIZE // 2),
    "quotation marks": b'"' * SIZE,
    "backslashes": b'{"a":"' + b"\\" * SIZE,
    "colons": b'{"a"' + b":" * SIZE,
    "small lists": b'{"a":[' + b"[]," * (SIZE // 3) + b"0]}",
    "unknown members": _body({**HTTP, **{f"m{n}": 1 for n in range(SIZE // 9)}}),
    "addresses": _body({**HTTP, "config": {"address": [f"e{n}" for n in range(SIZE // 6)]}}),
    "offsets": _body({**HTTP, "config": {"start": {str(n): "1" for n in range(SIZE // 10)}}}),
    "headers": _body(with_settings(HTTP, headers={f"x{n}": "" for n in range(SIZE // 10)})),
    "link properties": _body(with_settings(AMQP, linkproperties={f"p{n}": 1 for n in range(SIZE // 10)})),
    "types": _body({**HTTP, "types": [f"t{n}" for n in range(SIZE // 8)]}),
    "conditions": _body({**HTTP, "filter": {"dialect": "basic", "filters": [{f"a{n}": 1 for n in range(8)}] * 250}}),
    "percent signs": _body({**HTTP, "sink": "https://a.partner.example/%" + "25" * 1000}),
    "wide host": _body({**HTTP, "sink": "https://" + "\u00fc." * 900 + "/"}),
    "parentheses": _body({**HTTP, "filter": {"dialect": "sql", "expression": "(" * 2000 + "a" + ")" * 2000}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_object_is_read_in_no_time(name: str) -> None:
    begun = time.process_time()
    found = mistakes_of(HOSTILE[name])
    assert time.process_time() - begun < SECONDS
    assert 0 < len(found) <= MAX_MISTAKES + 1

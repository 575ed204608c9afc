"""JSON lines: with types they say all of a message, without types they are always legal JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.message import sections
from gateway.cli.messages import json_lines
from tests.support.amqp.strategies import BINARY, KINDS, SYMBOLS, TEXT, VALUES, same


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


@given(VALUES)
def test_any_body_value_comes_back_from_a_typed_line(value: Any) -> None:
    data = sections.section(sections.AMQP_VALUE, value)
    line = json_lines.line_of(data, typed=True)
    back = json_lines.read_line(line, 1)
    (found,) = sections.body_values(back, sections.walk(back))
    (sent,) = sections.body_values(data, sections.walk(data))
    assert same(found, sent), line


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message with the sections that a client may send; its maps have legal keys (AMQP 3.2)."""
    annotations, properties = (st.dictionaries(keys, VALUES, max_size=3) for keys in (SYMBOLS, TEXT))
    ids = st.none() | TEXT | st.uuids() | BINARY | KINDS["ulong"]
    parts = [
        (sections.HEADER, st.tuples(st.booleans(), KINDS["ubyte"], KINDS["uint"]).map(list)),
        (sections.DELIVERY_ANNOTATIONS, annotations),
        (sections.MESSAGE_ANNOTATIONS, annotations),
        (sections.PROPERTIES, st.tuples(ids, st.none() | BINARY, st.none() | TEXT).map(list)),
        (sections.APPLICATION_PROPERTIES, properties),
        (sections.DATA, BINARY),
        (sections.FOOTER, annotations),
    ]
    return b"".join(sections.section(code, draw(content)) for code, content in parts if draw(st.booleans()))


@given(messages())
def test_any_message_comes_back_from_a_typed_line(data: bytes) -> None:
    line = json_lines.line_of(data, typed=True)
    again = json_lines.line_of(json_lines.read_line(line, 1), typed=True)
    assert again == line


@given(VALUES)
def test_a_line_without_types_is_json(value: Any) -> None:
    data = sections.section(sections.AMQP_VALUE, value)
    line = json_lines.line_of(data)
    assert "\n" not in line
    assert "amqp-value" in json.loads(line, parse_constant=refuse)

"""Messages read together give the columns that they give one by one, however they differ or are broken."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridges.spark.columns.batch_decoder import MessageBuffer
from bridges.spark.columns.message_shape import shape_of
from bridges.spark.columns.row_decoder import RowDecoder
from bridges.spark.columns.rows import message_columns
from gateway.amqp.codec import codec
from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message import sections
from tests.support.filters import strategies as random
from tests.support.plugins.examples import examples

TEXTS = st.one_of(st.text(max_size=8), st.just("é" * 200))
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 255).map(codec.Ubyte),
    "ushort": st.integers(0, 65_535).map(codec.Ushort),
    "uint": st.sampled_from([0, 1, 255, 256, 2**32 - 1]).map(codec.Uint),
    "ulong": st.sampled_from([0, 1, 255, 256, 2**63 - 1, 2**63, 2**64 - 1]).map(codec.Ulong),
    "byte": st.integers(-128, 127).map(codec.Byte),
    "short": st.integers(-(2**15), 2**15 - 1).map(codec.Short),
    "int": st.sampled_from([-(2**31), -129, -128, 0, 127, 128, 2**31 - 1]).map(codec.Int),
    "long": st.sampled_from([-(2**63), -129, -128, 0, 127, 128, 2**63 - 1]),
    "timestamp": st.integers(-(2**63), 2**63 - 1).map(codec.Timestamp),
    "float": st.floats(width=32).map(codec.Float),
    "double": st.floats(),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda raw: uuid.UUID(bytes=raw)),
    "binary": st.binary(max_size=300),
    "string": TEXTS,
    "symbol": st.text("abc.[]", max_size=4).map(Symbol),
    "null": st.none(),
    "list": st.just([codec.Int(1)]),
}
BODIES = st.sampled_from(["none", "data", "value"])


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Messages with the same sections, names and types, and now and then a null."""
    names = draw(st.lists(st.text("ab.[é", min_size=1, max_size=3), max_size=3, unique=True))
    kinds = [KINDS[draw(st.sampled_from(sorted(KINDS)))] for _ in names]
    annotated, framed, kind = draw(st.booleans()), draw(st.booleans()), draw(BODIES)
    value = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    found = []
    for _ in range(draw(st.integers(8, 12))):
        values = {name: draw(st.one_of(each, each, each, st.none())) for name, each in zip(names, kinds, strict=True)}
        data = b""
        if framed:
            data += sections.section(sections.HEADER, [draw(st.booleans()), draw(KINDS["ubyte"])])
        if annotated:
            data += sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): draw(TEXTS)})
        if framed:
            fields = [draw(st.one_of(KINDS["uuid"], st.none())), None, draw(TEXTS), None, None, draw(KINDS["ulong"])]
            data += sections.section(sections.PROPERTIES, fields)
        if values:
            data += sections.section(sections.APPLICATION_PROPERTIES, values)
        if kind == "data":
            data += sections.section(sections.DATA, draw(st.binary(max_size=300)))
        elif kind == "value":
            data += sections.section(sections.AMQP_VALUE, draw(value))
        found.append(data)
    return found


def check(messages: Sequence[bytes]) -> None:
    rows = RowDecoder()
    for each in messages:
        rows.add(each)
    wanted, found = rows.arrays(), message_columns(messages)
    assert found.keys() == wanted.keys()
    for name, column in wanted.items():
        found[name].validate(full=True)
        assert repr(found[name].to_pylist()) == repr(column.to_pylist()), name  # NaN is not itself, its text is


@settings(max_examples=examples(300), deadline=None)
@given(alike())
@example([sections.section(sections.AMQP_VALUE, Symbol("s"))] * 8)
def test_messages_that_are_built_alike(messages: list[bytes]) -> None:
    check(messages)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(random.messages(), min_size=1, max_size=4), st.data())
def test_any_messages(messages: list[bytes], data: st.DataObject) -> None:
    check([data.draw(st.sampled_from(messages)) for _ in range(12)])


@settings(max_examples=examples(300), deadline=None)
@given(alike(), st.data())
def test_messages_that_are_broken_somewhere(messages: list[bytes], data: st.DataObject) -> None:
    for _ in range(3):
        row = data.draw(st.integers(0, len(messages) - 1))
        broken = bytearray(messages[row])
        if broken and data.draw(st.booleans()):
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
        else:
            del broken[data.draw(st.integers(0, len(broken))) :]
        messages[row] = bytes(broken)
    check(messages)


def test_most_messages_are_read_together() -> None:
    """Else the tests above would show nothing."""
    messages = [
        sections.section(sections.APPLICATION_PROPERTIES, {"n": codec.Int(number * 100), "t": "x" * number})
        + sections.section(sections.DATA, bytes(number))
        for number in range(300)
    ]
    shape = shape_of(messages[0])
    assert shape is not None
    assert len(MessageBuffer(messages).read(shape, np.arange(300)).rows) == 300
    check(messages)

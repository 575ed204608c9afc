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
from tests.support.filters.values import evenly
from tests.support.plugins.examples import examples

TEXTS = ("", "a", "é", "\0", "ab cd", "€" * 7, "\U0001f600", "12345678", "a" * 255, "é" * 200)
WHOLE: dict[str, tuple[Any, list[int]]] = {
    "ubyte": (codec.Ubyte, list(range(256))),
    "ushort": (codec.Ushort, [0, 1, 255, 256, 32_767, 32_768, 65_535]),
    "uint": (codec.Uint, [0, 1, 255, 256, 2**32 - 1]),
    "ulong": (codec.Ulong, [0, 1, 255, 256, 2**63 - 1, 2**63, 2**64 - 1]),
    "byte": (codec.Byte, list(range(-128, 128))),
    "short": (codec.Short, [-(2**15), -129, -128, -1, 0, 1, 127, 128, 2**15 - 1]),
    "int": (codec.Int, [-(2**31), -129, -128, 0, 127, 128, 2**31 - 1]),
    "long": (int, [-(2**63), -129, -128, 0, 127, 128, 2**63 - 1]),
}
FINITE: dict[str, Sequence[Any]] = {
    **{name: [kind(each) for each in numbers] for name, (kind, numbers) in WHOLE.items()},
    "boolean": (False, True),
    "uuid": [uuid.UUID(int=number) for number in (0, 7, 2**64, 2**127 + 1, 2**128 - 1)],
    "binary": [bytes(range(256))[:size] for size in range(12)] + [b"\0" * size for size in (127, 128, 255, 256, 300)],
    "string": TEXTS,
    "symbol": [Symbol(text) for text in ("", "a", "abc.", "[a]", "]].c")],
    "null": (None,),
    "list": ([codec.Int(1)],),
}
INFINITE: dict[str, st.SearchStrategy[Any]] = {
    "timestamp": st.integers(-(2**63), 2**63 - 1).map(codec.Timestamp),
    "float": st.floats(width=32).map(codec.Float),
    "double": st.floats(),
}


def drawn(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of these, or now and then null: a single draw."""
    return evenly(values, values, values, (None,))


KINDS = INFINITE | {name: st.sampled_from(values) for name, values in FINITE.items()}
OR_NULL = {name: each | st.none() for name, each in INFINITE.items()} | {k: drawn(each) for k, each in FINITE.items()}
NAMES = st.lists(st.text("ab.[é", min_size=1, max_size=3), max_size=3, unique=True)
KIND = st.sampled_from(sorted(KINDS))
HEADERS = st.sampled_from([[durable, priority] for durable in (False, True) for priority in FINITE["ubyte"]])
PROPERTIES = [evenly(FINITE["uuid"], (None,)), st.none(), KINDS["string"], st.none(), st.none(), KINDS["ulong"]]
FRAMES = st.tuples(HEADERS, st.tuples(*PROPERTIES).map(list))
PLANS = st.tuples(st.booleans(), st.booleans(), st.sampled_from(["none", "data", "value"]), KIND, st.integers(8, 12))


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Messages with the same sections, names and types, and now and then a null."""
    kinds = {name: OR_NULL[draw(KIND)] for name in draw(NAMES)}
    annotated, framed, body, kind, count = draw(PLANS)
    found = []
    for _ in range(count):
        header, properties = draw(FRAMES) if framed else ([], [])
        values = {name: draw(each) for name, each in kinds.items()}
        data = sections.section(sections.HEADER, header) if framed else b""
        if annotated:
            data += sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): draw(KINDS["string"])})
        if framed:
            data += sections.section(sections.PROPERTIES, properties)
        if values:
            data += sections.section(sections.APPLICATION_PROPERTIES, values)
        if body == "data":
            data += sections.section(sections.DATA, draw(KINDS["binary"]))
        elif body == "value":
            data += sections.section(sections.AMQP_VALUE, draw(KINDS[kind]))
        found.append(data)
    return found


ALIKE = alike()


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
@given(ALIKE)
@example([sections.section(sections.AMQP_VALUE, Symbol("s"))] * 8)
def test_messages_that_are_built_alike(messages: list[bytes]) -> None:
    check(messages)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(random.messages(), min_size=1, max_size=4), st.lists(st.integers(0, 11), min_size=12, max_size=12))
def test_any_messages(messages: list[bytes], order: list[int]) -> None:
    check([messages[number % len(messages)] for number in order])


@settings(max_examples=examples(300), deadline=None)
@given(ALIKE, st.data())
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

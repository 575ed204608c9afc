"""The Arrow back end: promoted columns of every type, integers at their edges, LIKE at its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from bridges.spark.columns.arrow import compile_filter, compile_verdict, promote
from gateway.amqp.codec import codec
from gateway.amqp.message import sections
from gateway.filters import predicate as p
from gateway.filters.values import calculator, folded
from tests.support.filters.rows import batch_of
from tests.support.project.parts import ROOT

AP = p.MessageSection.APPLICATION_PROPERTIES
N = p.FieldReference(AP, "n")
ALIKE = p.Like(N, p.Literal("a%"))


def test_the_example_of_the_documentation_runs() -> None:
    text = (ROOT / "docs" / "columns.md").read_text()
    example = text.partition("## Filters over columns")[2].partition("```python\n")[2].partition("```")[0]
    lines = [line for line in example.splitlines() if not line.startswith("df.")]
    assert len(lines) == len(example.splitlines()) - 1, "one line needs Spark"
    properties = [{"color": "red", "n": 6}, {"color": "red", "n": 5}, {"color": "blue", "n": 6}]
    encoded = [sections.section(sections.APPLICATION_PROPERTIES, each) for each in properties]
    names: dict[str, Any] = {"batch": batch_of(encoded)}
    exec("\n".join(lines), names)
    assert names["mask"].to_pylist() == names["same"].to_pylist() == [True, False, False]


def messages(*values: Any) -> list[bytes]:
    return [sections.section(sections.APPLICATION_PROPERTIES, {"n": value}) for value in values]


def compared(comparison: p.Comparison, value: Any) -> p.Predicate:
    return p.Compare(comparison, N, p.Literal(value))


@pytest.mark.parametrize(
    ("column", "predicate", "expected"),
    [
        (pa.array(["ab", "b", None]), ALIKE, [True, False, None]),
        (pa.array(["ab", "b", None]).dictionary_encode(), ALIKE, [True, False, None]),
        (pa.array(["ab", "b", None]).dictionary_encode(), compared(p.Comparison.GT, "b"), [False, False, None]),
        (pa.array([1, 7, None], pa.uint8()), compared(p.Comparison.GT, 5), [False, True, None]),
        (pa.array([1.5, float("nan"), None]), compared(p.Comparison.LT, 2), [True, None, None]),
        (pa.array([1.5, 2, None], pa.float32()), compared(p.Comparison.EQ, 2), [False, True, None]),
        (pa.array([True, False, None]), p.Truth(N), [True, False, None]),
        (pa.array([b"a", b"b", None]), compared(p.Comparison.EQ, b"a"), [True, False, None]),
        (pa.array([Decimal("1.5"), 2, None]), compared(p.Comparison.LT, 2), [True, False, None]),
        (
            pa.array([datetime.fromtimestamp(5, UTC), None], pa.timestamp("us", "UTC")),
            compared(p.Comparison.EQ, 5000),
            [True, None],
        ),
    ],
)
def test_columns_promoted_by_somebody_else(column: Any, predicate: p.Predicate, expected: list[Any]) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["application_properties.n"])
    assert compile_verdict(predicate)(batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("a", codec.Symbol("b")), pa.dictionary(pa.int32(), pa.string())),
        ((codec.Int(1), codec.Ulong(2)), pa.int64()),
        ((0.5, codec.Float(1.5)), pa.float64()),
        ((True, False), pa.bool_()),
    ],
)
def test_values_of_one_kind_are_promoted_to_a_plain_column(values: tuple[Any, ...], kind: Any) -> None:
    assert promote(batch_of(messages(*values)), [N]).schema.field("application_properties.n").type == kind


@pytest.mark.parametrize("values", [("a", 1), (1, None), (1, codec.Timestamp(1)), (codec.Ulong(2**64 - 1), 1), ([1],)])
def test_values_of_several_kinds_stay_values(values: tuple[Any, ...]) -> None:
    promoted = promote(batch_of(messages(*values)), [N])
    assert pa.types.is_struct(promoted.schema.field("application_properties.n").type)


EDGES = (0, 1, -1, 2, 7, -7, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**63 + 1, 2**64 - 1, 10**19)
BEYOND = (2**64, -(2**63) - 1, 10**30)


@pytest.mark.parametrize("operator", p.Operator)
def test_integers_are_computed_exactly_at_their_edges(operator: p.Operator) -> None:
    calculate = calculator(operator)
    pairs = list(product(EDGES, EDGES))
    values = [{"n": wire(left), "m": wire(right)} for left, right in pairs]
    batch = batch_of([sections.section(sections.APPLICATION_PROPERTIES, each) for each in values])
    both = p.Arithmetic(operator, N, p.FieldReference(AP, "m"))
    expected = [calculate(left, right) for left, right in pairs]
    for answer in {*expected, 5}:
        equal = compile_verdict(p.Compare(p.Comparison.EQ, both, p.Literal(answer)))(batch).to_pylist()
        assert equal == [None if None in (result, answer) else result == answer for result in expected]


@pytest.mark.parametrize(("operator", "constant"), list(product(p.Operator, (*EDGES, *BEYOND))))
def test_integers_with_a_constant_are_computed_exactly(operator: p.Operator, constant: int) -> None:
    calculate = calculator(operator)
    batch = batch_of(messages(*map(wire, EDGES)))
    sides: tuple[Callable[[Any], p.ValueExpression], ...] = (
        lambda value: p.Arithmetic(operator, N, value),
        lambda value: p.Arithmetic(operator, value, N),
    )
    for node, results in zip(
        sides,
        ([calculate(edge, constant) for edge in EDGES], [calculate(constant, edge) for edge in EDGES]),
        strict=True,
    ):
        for answer in {result for result in results if result is not None} or {0}:
            found = compile_verdict(p.Compare(p.Comparison.EQ, node(p.Literal(constant)), p.Literal(answer)))(batch)
            assert found.to_pylist() == [None if result is None else result == answer for result in results]


def test_a_time_compares_with_integers_of_every_size_and_with_nothing_else() -> None:
    five = codec.Decimal32(b"\x32\x80\0\x05")
    others = (codec.Ulong(2**64 - 1), codec.Ulong(5), codec.Timestamp(6), 5.0, five)
    values = [{"n": codec.Timestamp(5), "m": other} for other in others]
    batch = batch_of([sections.section(sections.APPLICATION_PROPERTIES, each) for each in values])
    less = p.Compare(p.Comparison.LT, N, p.FieldReference(AP, "m"))
    assert compile_verdict(less)(batch).to_pylist() == [True, False, True, None, None]
    assert compile_verdict(p.Compare(p.Comparison.GT, p.FieldReference(AP, "m"), N))(batch).to_pylist() == [
        True, False, True, None, None,
    ]  # fmt: skip


def test_what_is_no_number_is_no_answer() -> None:
    batch = batch_of(messages(float("inf"), 1.0))
    nothing = p.Arithmetic(p.Operator.SUB, N, N)
    assert compile_verdict(p.IsNull(nothing))(batch).to_pylist() == [True, False]
    assert compile_verdict(p.Compare(p.Comparison.EQ, nothing, p.Literal(0)))(batch).to_pylist() == [None, True]


def wire(number: int) -> Any:
    return codec.Ulong(number) if number >= 2**63 else codec.Long(number)


def test_folding_is_pythons_for_every_character() -> None:
    characters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    changed = [character for character in characters if folded(character) != character]
    sample = [*changed, *characters[:: len(characters) // 2000], "\u1c89", "\U00010d50"]
    batch = batch_of(messages(*sample))
    for affix in p.Affix:
        mine = [p.Text(N, affix, character, True) for character in sample[::97]]
        for text, character in zip(mine, sample[::97], strict=True):
            expected = [folded(value) == folded(character) for value in sample]
            assert compile_filter(text)(batch).to_pylist() == expected


@pytest.mark.parametrize(
    "pattern", ["%" + "a%" * 2000 + "b", "%" + "_" * 4000 + "b", "%" + "a" * 4000 + "b%", "a_%" * 1300]
)
def test_like_takes_time_in_proportion_whatever_the_pattern(pattern: str) -> None:
    batch = batch_of(messages("a" * 64_000, "a" * 63_999 + "b"))
    like = compile_filter(p.Like(N, p.Literal(pattern)))
    started = time.process_time()
    found = like(batch).to_pylist()
    assert time.process_time() - started < 20
    assert found == [pattern.endswith("%") and "b" not in pattern, "aaab%" not in pattern or "a" * 4000 in pattern]

"""All targets for messages of clients in one short run: `python -m tests.bench --targets`.

The cases are those of issue 19, points 2 to 5, with the mix of recorded messages, and Kafka's with synthetic ones and
those of an application as well; and transactions (issue 20). The order is that of the table in docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tests.bench.shapes import shapes

CASES: Final[dict[str, tuple[str, ...]]] = {
    "crossing": (shapes.MIX,),
    "artemis": ("jms",),
    "kafka": shapes.USUAL,
    "links": (shapes.MIX,),
    "journal": (shapes.MIX,),
    "tls": (shapes.MIX,),
    "idle": (shapes.MIX,),
    "transactions": (),
}
"""What messages of a case look like, unless `--shape` says it."""
_COLUMNS: Final = ("figure", "value", "peer", "ratio", "by processor time", "target", "")


def table(figures: Iterable[dict[str, Any]]) -> str:
    """The figures that have a target, as lines for people; those of processor time alone are in a column of these."""
    chosen = [figure for figure in figures if figure["target"] is not None and not _repeated(figure["name"])]
    rows = [_COLUMNS, *map(_row, chosen)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _repeated(name: str) -> bool:
    """Whether it is the processor time of the figure before it."""
    return "_cpu" in name and not name.startswith("artemis")


def _row(figure: dict[str, Any]) -> tuple[str, ...]:
    bound = f"{'at most' if figure['at_most'] else 'at least'} {figure['target']:.3g}"
    verdict = "met" if figure["met"] else "MISSED"
    doubts = [text for key, text in (("disturbed", "disturbed"), ("generator_bound", "generator")) if figure[key]]
    return (
        figure["name"],
        f"{figure['value']:,.1f} {figure['unit']}",
        _number(figure["baseline"], ",.1f"),
        _number(figure["ratio"], ".3f"),
        _number(figure["cpu_ratio"], ".3f"),
        bound,
        ", ".join((verdict, *doubts)),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

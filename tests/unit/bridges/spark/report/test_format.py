"""Numbers and names as the report writes them."""

from __future__ import annotations

import pytest

from bridges.spark.report.page import format as words


@pytest.mark.parametrize(
    ("now", "before", "text"),
    [(3, 3, "unchanged"), (0, 0, "unchanged"), (5, 0, "new"), (0, 5, "−100.0 %"), (150, 100, "+50.0 %"),
     (5000, 5, "×1,000")],
)  # fmt: skip
def test_changes(now: int, before: int, text: str) -> None:
    assert words.change(now, before) == text


def test_names_do_not_change_the_text_around_them() -> None:
    assert words.name("orders/eu") == "orders/eu"
    assert words.name("طلبات") == "\u2068طلبات\u2069"
    assert words.name("a\u202eb\n") == r"a\u202eb\n"
    assert words.visible("\u2068x\u2069\x00") == "\u2068x\u2069\\x00"


def test_filters_in_words() -> None:
    assert words.filters("amqp:event-streams-delivery-annotations-filter, amqp:sql-filter") == "SQL"
    assert words.filters("amqp:event-streams-delivery-annotations-filter") == words.filters(None) == ""
    assert words.filters("amqp:properties-filter, own:kind") == "properties, own:kind"


@pytest.mark.parametrize(
    ("part", "text"), [(0, "0.0 %"), (7, "7.00 %"), (7.17, "7.17 %"), (0.0123, "0.0123 %"), (50, "50.0 %"), (None, "–")]
)
def test_shares_have_the_same_digits(part: float | None, text: str) -> None:
    assert words.share(part, 100) == text

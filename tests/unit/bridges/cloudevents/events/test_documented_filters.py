"""The filters that docs/subscriptions.md shows, and what it says surprises (CE 3.2.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from bridges.cloudevents.events import dialects
from bridges.cloudevents.events.filter import EventFilter, every
from tests.support.cloudevents.records import REQUIRED, binary_record, event
from tests.support.project.parts import ROOT

TEXT = (ROOT / "docs" / "subscriptions.md").read_text("utf-8")
SECTION = TEXT[TEXT.index("## Filters") : TEXT.index("## Events")]


def examples() -> Iterator[dict[str, Any]]:
    """The objects of the section, one after the other."""
    found = re.search(r"```json\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    decoder, text = json.JSONDecoder(), found[1].strip()
    while text:
        value, end = decoder.raw_decode(text)
        yield value
        text = text[end:].strip()


def of(subscription: dict[str, Any]) -> EventFilter:
    members = {"filters": dialects.draft, "types": dialects.types, "source": dialects.source}
    found = [read(subscription[name]) for name, read in members.items() if name in subscription]
    given = subscription.get("filter", {})
    by_dialect = {"sql": dialects.sql, "amqp-sql": dialects.amqp_sql}
    if given.get("dialect") == "basic":
        found.append(dialects.basic(given))
    elif given:
        found.append(by_dialect[given["dialect"]](given["expression"]))
    return every(found)


SHOP = {"type": "order.created", "source": "/shop/1"}
MATCHING = [
    {**SHOP, "subject": "a.jpg"},
    {**SHOP, "amount": "101"},
    None,
    {**SHOP, "subject": "orders/7"},
    {"subject": "x", "size": "999"},
    {"type": "order.paid", "region": "eu"},
    SHOP,
]
OTHERS = [
    {**SHOP, "subject": "a.png"},
    {**SHOP, "amount": "100"},
    None,
    {**SHOP, "subject": "returns/7"},
    {"subject": "x"},
    {"type": "order.paid", "region": "test"},
    {**SHOP, "source": "/shop/2"},
]


@pytest.mark.parametrize("number", range(len(MATCHING)))
def test_examples_want_what_they_say(number: int) -> None:
    found = list(examples())
    assert len(found) == len(MATCHING)
    matching, other = MATCHING[number], OTHERS[number]
    if matching is not None and other is not None:
        assert of(found[number]).matches(event(**matching))
        assert not of(found[number]).matches(event(**other))


def test_example_over_the_message() -> None:
    record = binary_record(REQUIRED)
    assert record.headers_ is not None
    record.headers_.append(("color", b"red"))
    wanted = of(list(examples())[2])
    assert wanted.unindexed
    assert not wanted.matches(event())


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("TRUE OR TRUE AND FALSE", False),
        ("NOT (type = 'x')", True),
        ("NOT type = 'x'", False),
        ("missing != 'x'", False),
        ("missing = 'x'", False),
        ("type / 0 = 1", False),
    ],
)
def test_surprises_of_cesql(text: str, matches: bool) -> None:
    assert dialects.sql(text).matches(event()) is matches


@pytest.mark.parametrize(
    ("text", "indexed"),
    [("amount > 100", False), ("type LIKE '%x%'", False), ("amount > 100 AND type = 'x'", True)],
)
def test_what_is_looked_up(text: str, indexed: bool) -> None:
    assert dialects.sql(text).unindexed is not indexed
    assert dialects.draft([{"not": {"exact": {"type": "x"}}}]).unindexed

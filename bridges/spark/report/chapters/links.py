"""The chapter about links and messages by scope, address and outcome, from the gateway's journal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridges.spark.report.chapters.builder import DIRECTIONS, SHOWN, ChapterBuilder, more, ranked, sums, table
from bridges.spark.report.chapters.refused import REFUSED
from bridges.spark.report.page import format as words
from bridges.spark.report.page.html import Card, Chapter
from bridges.spark.report.page.plots import Bar
from gateway.plural import plural

_OUTCOMES: Final = ("accepted", "rejected", "released", "modified", "settled", "dropped")
_TEXT: Final = "From the gateway's journal: links and messages by scope, address and outcome."
_DIRECTION_NOTE: Final = (
    "In: clients send; out: they receive. Messages of anonymous links count at the addresses they go to."
)
_SETTLED: Final = "Settled: the sender did not ask for an outcome."


def links(builder: ChapterBuilder) -> Chapter:
    """Links and messages."""
    return Chapter("links", "Links and messages", _TEXT, tuple(_cards(builder)))


def _cards(builder: ChapterBuilder) -> Iterator[Card]:
    if builder.tables["scopes"]:
        yield _scopes(builder)
    if (found := _addresses(builder)) is not None:
        yield found
    if (found := _outcomes(builder)) is not None:
        yield found
    if builder.tables["crossings"]:
        yield _crossed(builder)


def _scopes(builder: ChapterBuilder) -> Card:
    rows = builder.tables["scopes"]
    title = "Messages by scope"
    axis = f"messages in {builder.bucket}"
    plot = builder.over_time(
        rows, lambda row: f"{row['scope']}, {DIRECTIONS[row['action']]}", "messages", axis, title
    )
    found = sums(rows, lambda row: (row["scope"], row["action"]), "messages", "attached", "denied")
    before = sums(builder.tables["scopes_before"], lambda row: (row["scope"], row["action"]), "messages")
    columns, lines = ["Scope", "#Links", "#Refused", "#Messages"], []
    for (scope, action), (messages, attached, denied) in sorted(found.items()):
        line = [f"{scope}, {DIRECTIONS[action]}", *map(words.count, (attached, denied, messages))]
        if builder.terms.compared:
            line.append(words.change(messages, before.get((scope, action), [0])[0]))
        lines.append(line)
    if builder.terms.compared:
        columns.append("#Change")
    return Card(title, plot, table(columns, lines, "scopes"), _DIRECTION_NOTE)


def _addresses(builder: ChapterBuilder) -> Card | None:
    allowed = [
        row for row in builder.tables["links"] if row["decision"] == "allow" and row["route"] != "anonymous"
    ]
    found = sums(allowed, lambda row: (row["scope"], words.place(row), row["action"]), "messages", "attached")
    bars = [
        Bar(f"{address} ({scope}, {DIRECTIONS[action]})", (messages,), _with_links(messages, opened))
        for (scope, address, action), (messages, opened) in ranked(found)
    ]
    plot = builder.bars(bars, ("messages",), "messages", "By address")
    return Card("Messages by address", plot, note=more(bars, "links")) if bars else None


def _with_links(messages: int, opened: int) -> str:
    return words.count(messages) + (f", {words.count(opened)} {plural(opened, 'link')}" if opened else "")


def _outcomes(builder: ChapterBuilder) -> Card | None:
    rows = [row for row in builder.tables["outcomes"] if not row["outcome"].startswith(REFUSED)]
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        place = found.setdefault((words.place(row), row["action"]), {})
        place[row["outcome"]] = place.get(row["outcome"], 0) + row["messages"]
    heavy = sorted(found.items(), key=lambda item: -sum(item[1].values()))
    parts = [name for name in _OUTCOMES if any(name in each for _, each in heavy[:SHOWN])]
    bars = [
        Bar(f"{address}, {DIRECTIONS[action]}", [each.get(name, 0) for name in parts], _ended(each))
        for (address, action), each in heavy
    ]
    note = _SETTLED if "settled" in parts else ""
    plot = builder.bars(bars, parts, "messages", "Outcomes by address")
    return Card("Outcomes", plot, note=" ".join(filter(None, (note, more(bars, "outcomes"))))) if bars else None


def _ended(outcomes: dict[str, int]) -> str:
    """100 % accepted."""
    return f"{words.share(outcomes.get('accepted', 0), sum(outcomes.values()))} accepted"


def _crossed(builder: ChapterBuilder) -> Card:
    rows = [
        (f"{row['scope']} → {row['to_scope']}, {words.name(row['to_address'] or '')}", row["result"], row["why"] or "",
         words.count(row["messages"]))
        for row in builder.tables["crossings"]
    ]  # fmt: skip
    return Card(
        "Between scopes", "", table(("From → to", "Messages were", "Why", "#Messages"), rows, "crossings"), wide=True
    )

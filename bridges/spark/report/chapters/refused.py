"""The first chapter of a report with a journal: links and messages that were refused, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

from bridges.spark.report.chapters.builder import ChapterBuilder, ranked, sums, table
from bridges.spark.report.page import format as words
from bridges.spark.report.page.html import Card, Chapter
from gateway.plural import plural

REFUSED = "refused: "
"""Prefix of the outcomes that are errors of refused messages."""
_ERRORS = 5


def refused(builder: ChapterBuilder) -> Chapter:
    """The totals by error and one list of all refusals, or a sentence if there were none."""
    denied = [row for row in builder.tables["links"] if row["decision"] == "deny"]
    rejected = [row for row in builder.tables["outcomes"] if row["outcome"].startswith(REFUSED)]
    if not denied and not rejected:
        return Chapter("refused", "Refused", "Nothing was refused.")
    links = sums(
        denied, lambda row: (row["condition"] or "unknown", row["user"] or "", words.place(row), row["scope"]), "denied"
    )
    messages = sums(
        rejected, lambda row: (row["outcome"].removeprefix(REFUSED), "", words.place(row), row["scope"]), "messages"
    )
    found = [(count, "link", *key) for key, (count,) in ranked(links)]
    found += [(count, "message", *key) for key, (count,) in ranked(messages)]
    rows = [
        (place, words.name(user), scope, words.name(error), f"{words.count(count)} {plural(count, kind)}")
        for count, kind, error, user, place, scope in sorted(found, key=lambda each: -each[0])
    ]
    lines = table(("Address", "User", "Scope", "Error", "#Refused"), rows, "links")
    text = f"{_totals('Links', links)} {_totals('Messages', messages)}".strip()
    return Chapter("refused", "Refused", text, (Card("What was refused, and why", "", lines, wide=True),))


def _totals(name: str, found: Mapping[tuple[str, str, str, str], list[int]]) -> str:
    """Links: 3 amqp:not-found, 1 amqp:unauthorized-access."""
    errors: dict[str, int] = {}
    for (error, *_), (count,) in found.items():
        errors[error] = errors.get(error, 0) + count
    if not errors:
        return ""
    heavy = sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{words.count(count)} {words.name(error)}" for error, count in heavy[:_ERRORS]]
    rest = sum(count for _, count in heavy[_ERRORS:])
    return f"{name}: {', '.join([*parts, *([f'{words.count(rest)} others'] if rest else [])])}."

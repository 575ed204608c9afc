"""All chapters in the order of the page: refusals first. A chapter without data explains why, and how to get data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridges.spark.report.chapters.archive import archived
from bridges.spark.report.chapters.builder import ChapterBuilder, ReportTerms, Tables
from bridges.spark.report.chapters.links import links
from bridges.spark.report.chapters.reading import reading
from bridges.spark.report.chapters.refused import refused
from bridges.spark.report.page.html import Chapter

_NO_JOURNAL: Final = (
    "There is no journal in what this report was made of. A gateway writes one when its policy has gateway.journal "
    "(docs/journal.md); archive its topic, or name it with --journal."
)


def chapters(tables: Tables, terms: ReportTerms) -> Iterator[Chapter]:
    """The chapters that have data; without a journal, also one that explains how to get it."""
    builder = ChapterBuilder(tables, terms)
    if terms.journal:
        yield refused(builder)
    if terms.archive:
        yield archived(builder)
    if terms.journal:
        yield links(builder)
        yield reading(builder)
    else:
        yield Chapter("journal", "Links, messages and readers", _NO_JOURNAL)

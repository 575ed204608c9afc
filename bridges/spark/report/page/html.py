"""The report's page: one HTML file with its style and its plots, without network requests.

Text has 16 pixels. A phone shows one column, and a row of a wide table as a list of names and values. Data of clients
(addresses, groups, keys) is escaped text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple

from bridges.spark.report.page.format import visible
from bridges.spark.report.page.style import STYLE

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy."""
_COLUMNS: Final = 3
"""Maximum number of cards side by side on a desktop."""


@dataclass(frozen=True)
class PageTable:
    """A table of strings; columns whose names begin with `#` contain numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0
    """Number of rows that are only in the file."""
    file: str = ""


@dataclass(frozen=True)
class Card:
    """A plot with its table; either may be missing."""

    title: str
    plot: str = ""
    table: PageTable | None = None
    note: str = ""
    wide: bool = False
    """Whether the card is as wide as the page and above the chapter's other cards."""


@dataclass(frozen=True)
class Chapter:
    """A heading with its text and cards."""

    name: str
    title: str
    text: str
    cards: Sequence[Card] = field(default_factory=tuple)


class Tile(NamedTuple):
    """A key figure: its name, its value, and a remark such as the change since the period before."""

    name: str
    value: str
    note: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Page:
    """The whole page; `warnings` name missing data."""

    title: str
    about: Sequence[str]
    tiles: Sequence[Tile]
    warnings: Sequence[str]
    chapters: Sequence[Chapter]
    footer: str


def render(page: Page) -> str:
    """The page as HTML."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: Page) -> Iterable[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">'
    yield f"<title>{_text(page.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<header>\n<h1>{escape(page.title)}</h1>"
    yield from (f'<p class="muted">{_text(line)}</p>' for line in page.about)
    yield from (f'<p class="bad">{_text(line)}</p>' for line in page.warnings)
    if page.tiles:
        many = len(page.tiles)
        tiles = "".join(map(_tile, page.tiles))
        yield f'<dl class="tiles" style="--tiles: {many}; --half: {(many + 1) // 2}">{tiles}</dl>'
    links = "".join(f'<li><a href="#{escape(each.name)}">{escape(each.title)}</a></li>' for each in page.chapters)
    yield f'<nav aria-label="Chapters"><ul>{links}</ul></nav>\n</header>'
    for chapter in page.chapters:
        yield from _chapter(chapter)
    yield f'<footer class="muted">{escape(page.footer)}</footer>\n</main>\n</body>\n</html>'


def _text(text: str) -> str:
    return escape(visible(text))


def _tile(tile: Tile) -> str:
    note = f"<small>{_text(tile.note)}</small>" if tile.note else ""
    bad = ' class="bad"' if tile.bad else ""
    return f"<div><dt>{_text(tile.name)}</dt><dd{bad}>{_text(tile.value)}{note}</dd></div>"


def _chapter(chapter: Chapter) -> Iterable[str]:
    name = escape(chapter.name)
    yield f'<section aria-labelledby="{name}">\n<h2 id="{name}">{_text(chapter.title)}</h2>'
    yield f"<p>{_text(chapter.text)}</p>"
    for card in chapter.cards:
        if card.wide:
            yield from _card(card)
    narrow = [card for card in chapter.cards if not card.wide]
    if narrow:
        yield f'<div class="cards" style="--columns: {min(len(narrow), _COLUMNS)}">'
        for card in narrow:
            yield from _card(card)
        yield "</div>"
    yield "</section>"


def _card(card: Card) -> Iterable[str]:
    yield f"<figure>\n<h3>{_text(card.title)}</h3>"
    if card.plot:
        yield card.plot
    if card.note:
        yield f"<figcaption>{_text(card.note)}</figcaption>"
    if card.table is not None:
        yield from _table(card.table)
    yield "</figure>"


def _table(table: PageTable) -> Iterable[str]:
    """Roles are explicit, since on a phone the style turns rows into grids, which loses their implicit roles."""
    classes = [' class="n"' if name.startswith("#") else ' class="text"' for name in table.columns]
    names = [_text(name.removeprefix("#")) for name in table.columns]
    wide = ' class="wide"' if len(names) > 2 else ""
    yield f'<table role="table"{wide}>'
    if table.left:
        yield f"<caption>The first {len(table.rows):,}; {table.left:,} more are in {_text(table.file)}.</caption>"
    heads = "".join(
        f'<th role="columnheader" scope="col"{kind}>{name}</th>' for kind, name in zip(classes, names, strict=True)
    )
    yield f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>\n<tbody role="rowgroup">'
    for row in table.rows:
        cells = "".join(
            f'<td role="cell" data-label="{name}"{kind}>{_text(text)}</td>'
            for kind, name, text in zip(classes, names, row, strict=True)
        )
        yield f'<tr role="row">{cells}</tr>'
    yield "</tbody>\n</table>"

"""The report's page: one HTML file with its style and its plots, without network requests.

It is designed for a phone first: one column, text of 16 pixels, tables of few columns under each plot. Data of clients
(addresses, groups, keys) is escaped text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy."""
_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --muted: #57606a; --grid: #d5dae0;
  --s0: #0b62c4; --s1: #b3501b; --s2: #1a7f4b; --s3: #8a3ab0; --s4: #a3134f; --s5: #5b6b00; --s6: #6e7781;
  --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --paper: #12161c; --card: #1b212a; --ink: #e8ebef; --muted: #a9b3bf;
  --grid: #38424e; --s0: #6cb0ff; --s1: #f2a065; --s2: #5fd39a; --s3: #cf9bf0; --s4: #ff8fb8; --s5: #c5d154;
  --s6: #9aa5b1; --bad: #ff9d94 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere }
main { max-width: 76rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem; line-height: 1.2; margin: .5rem 0 }
h2 { font-size: 1.25rem; margin: 2rem 0 .25rem }
h3 { font-size: 1rem; margin: 0 0 .5rem }
p { margin: .25rem 0 .75rem; max-width: 44rem }
.muted, figcaption, caption { color: var(--muted); font-size: .875rem }
.bad { color: var(--bad) }
dl.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .5rem; margin: 1rem 0 }
dl.tiles div { background: var(--card); border-radius: .5rem; padding: .5rem .75rem }
dt { color: var(--muted); font-size: .875rem }
dd { margin: 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: .75rem;
  align-items: start }
figure { margin: 0; background: var(--card); border-radius: .5rem; padding: .75rem; min-width: 0 }
svg { display: block; width: 100%; height: auto; font-family: inherit }
table { width: 100%; border-collapse: collapse; font-size: .875rem; margin-top: .5rem }
caption { text-align: left; padding: .25rem 0 }
th, td { text-align: left; vertical-align: top; padding: .25rem .5rem .25rem 0; border-top: 1px solid var(--grid) }
th { font-weight: 600; overflow-wrap: normal }
td.n, th.n { text-align: right; padding-right: 0; padding-left: .5rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal }
td.n { white-space: nowrap }
@media (max-width: 36rem) {
  table.wide tr { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr));
    border-top: 1px solid var(--grid); padding: .25rem 0 }
  table.wide th, table.wide td { border: 0; padding: 0 .25rem 0 0 }
  table.wide th:first-child, table.wide td:first-child { grid-column: 1 / -1 }
  table.wide th.n, table.wide td.n { padding: 0 }
}
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem }
a { color: var(--s0) }
code { font-size: .875em }
footer { margin: 2rem 0 1rem }
"""


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


@dataclass(frozen=True)
class Chapter:
    """A heading with its text and cards."""

    name: str
    title: str
    text: str
    cards: Sequence[Card] = field(default_factory=tuple)


@dataclass(frozen=True)
class Page:
    """The whole page; `tiles` are the key figures, `warnings` name missing data."""

    title: str
    about: Sequence[str]
    tiles: Sequence[tuple[str, str]]
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
    yield f"<title>{escape(page.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>"
    yield f"<header>\n<h1>{escape(page.title)}</h1>"
    yield from (f'<p class="muted">{escape(line)}</p>' for line in page.about)
    yield from (f'<p class="bad">{escape(line)}</p>' for line in page.warnings)
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in page.tiles)
    yield f'<dl class="tiles">{tiles}</dl>'
    links = "".join(f'<li><a href="#{escape(each.name)}">{escape(each.title)}</a></li>' for each in page.chapters)
    yield f'<nav aria-label="Chapters"><ul>{links}</ul></nav>\n</header>'
    for chapter in page.chapters:
        yield from _chapter(chapter)
    yield f'<footer class="muted">{escape(page.footer)}</footer>\n</main>\n</body>\n</html>'


def _chapter(chapter: Chapter) -> Iterable[str]:
    name = escape(chapter.name)
    yield f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(chapter.title)}</h2>'
    yield f"<p>{escape(chapter.text)}</p>"
    if chapter.cards:
        yield '<div class="cards">'
        for card in chapter.cards:
            yield from _card(card)
        yield "</div>"
    yield "</section>"


def _card(card: Card) -> Iterable[str]:
    yield f"<figure>\n<h3>{escape(card.title)}</h3>"
    if card.plot:
        yield card.plot
    if card.note:
        yield f"<figcaption>{escape(card.note)}</figcaption>"
    if card.table is not None:
        yield from _table(card.table)
    yield "</figure>"


def _table(table: PageTable) -> Iterable[str]:
    """Roles are explicit, since the style shows rows as grids on a phone, which loses their meaning."""
    classes = [' class="n"' if name.startswith("#") else "" for name in table.columns]
    names = [name.removeprefix("#") for name in table.columns]
    wide = f' class="wide" style="--columns: {len(names) - 1}"' if len(names) > 2 else ""
    yield f'<table role="table"{wide}>'
    if table.left:
        yield f"<caption>The first {len(table.rows):,}; {table.left:,} more are in {escape(table.file)}.</caption>"
    heads = zip(classes, names, strict=True)
    description = "".join(f'<th role="columnheader" scope="col"{kind}>{escape(name)}</th>' for kind, name in heads)
    yield f'<thead role="rowgroup"><tr role="row">{description}</tr></thead>\n<tbody role="rowgroup">'
    for row in table.rows:
        cells = zip(classes, row, strict=True)
        description = "".join(f'<td role="cell"{kind}>{escape(text)}</td>' for kind, text in cells)
        yield f'<tr role="row">{description}</tr>'
    yield "</tbody>\n</table>"

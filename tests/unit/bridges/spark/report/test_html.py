"""The page: escaped text, tables that name their cells, key figures in full rows."""

from __future__ import annotations

from bridges.spark.report.page.html import Card, Chapter, Page, PageTable, Tile, render


def page(*cards: Card, tiles: tuple[Tile, ...] = ()) -> str:
    return render(Page("Report", ("<b>",), tiles, (), (Chapter("one", "One", "Text", cards),), "Made"))


def test_cells_of_wide_tables_name_their_columns() -> None:
    text = page(Card("All", table=PageTable(("Name", "#Events", "#Bytes"), [("a<b", "1", "2")]), wide=True))
    assert '<td role="cell" data-label="Events" class="n">1</td>' in text
    assert "a&lt;b" in text
    assert "&lt;b&gt;" in text
    assert 'class="cards"' not in text  # a wide card stands alone


def test_columns_are_as_many_as_cards() -> None:
    for count, columns in ((1, 1), (2, 2), (3, 3), (4, 3)):
        assert f'<div class="cards" style="--columns: {columns}">' in page(*[Card("x")] * count)


def test_key_figures_fill_their_rows() -> None:
    text = page(tiles=(*[Tile("a", "1")] * 3, Tile("b", "2", "new", bad=True)))
    assert '<dl class="tiles" style="--tiles: 4; --half: 2">' in text
    assert '<dd class="bad">2<small>new</small></dd>' in text
    assert "tiles" not in page().split("<body>")[1]

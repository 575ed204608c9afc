"""The README renders on the page of a package index, without the project's files, and names pages that exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.support.project.parts import ROOT

README = (ROOT / "README.md").read_text()
INDEX = (ROOT / "docs/README.md").read_text()


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a page, those within lines included."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def test_it_is_the_description_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["readme"] == "README.md"


def test_every_link_works_without_the_projects_files() -> None:
    links = [str(token.attrs.get("href") or token.attrs.get("src")) for token in tokens(README)
             if token.type in ("link_open", "image")]  # fmt: skip
    assert len(links) >= 6
    assert [link for link in links if not link.startswith("https://")] == []


def test_it_has_only_what_an_index_shows() -> None:
    """No HTML, which is cleaned away, and no diagrams, which are shown as their source."""
    found = list(tokens(README))
    assert [token.content for token in found if token.type in ("html_block", "html_inline")] == []
    assert {token.info for token in found if token.type == "fence"} <= {"", "text", "yaml"}


def test_pages_and_folders_that_it_names_exist() -> None:
    named = set(re.findall(r"`((?:docs|policies)/[\w/.-]+|[A-Z]+(?:\.md)?)`", README))
    assert len(named) > 12
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_index_of_the_documents() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")}
    pages = {page for page in pages if not page.startswith("decisions/")} - {"README.md"}
    linked = set(re.findall(r"\]\(([^)]+)\)", INDEX))
    assert pages - linked == set()

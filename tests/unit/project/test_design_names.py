"""Every name in backticks in docs/design.md exists in the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.project.parts import ROOT

PROSE = re.sub(r"^```.*?^```", "", (ROOT / "docs/design.md").read_text(), flags=re.MULTILINE | re.DOTALL)
FOREIGN = ("proton.", "pytest.", "queued.max.", "redis:", "Decimal32/")
"""How names begin that look like ours but are not."""
NAMED = sorted(name for name in set(re.findall(r"`([^`]+)`", PROSE)) if not name.removeprefix("@").startswith(FOREIGN))


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for suffix in ("py", "pyi", "c", "h", "yaml", "json"):
            yield from (ROOT / folder).rglob(f"*.{suffix}")


# What is read of the whole tree is read when it is needed: any run imports this module.


@cache
def product() -> dict[Path, str]:
    """The product's files and their texts."""
    return {path: path.read_text() for path in sources("gateway", "bridges", "policies")}


@cache
def others() -> list[Path]:
    """What else the page may name."""
    return [*sources("tests"), ROOT / "pyproject.toml", ROOT / "Makefile"]


@cache
def paths() -> list[str]:
    """All of them, and documents, as they are named."""
    return [path.relative_to(ROOT).as_posix() for path in [*product(), *others(), *(ROOT / "docs").rglob("*.md")]]


@cache
def product_words() -> dict[Path, set[str]]:
    """The words in each file of the product, and the name of the file."""
    return {path: {path.stem, *re.findall(r"\w+", text)} for path, text in product().items()}


@cache
def words() -> set[str]:
    """The words in all of them."""
    texts = [*(path.read_text() for path in others()), *paths()]
    return set().union(*product_words().values(), *(re.findall(r"\w+", text) for text in texts))


KEYS = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/policy.md").read_text(), re.MULTILINE))


def word_of(word: str) -> str:
    """A metric's name as the code has it: the prefix and the suffix are added when it is exposed."""
    return word.removeprefix("scopegate_").removesuffix("_total")


def test_words_occur_in_the_code() -> None:
    found = {word: named for named in NAMED for word in re.findall(r"[A-Za-z_]\w*", named)}
    assert {word: named for word, named in found.items() if not words() & {word, word_of(word)}} == {}


def test_paths_exist() -> None:
    pattern = r"[\w.-]+(?:/[\w-]+)*/[\w-]*(?:\.\w+)?|\b\w+\.(?:py|c|h|md)\b"
    found = {path.rstrip("/") for named in NAMED if "(" not in named for path in re.findall(pattern, named)}
    assert len(found) > 30
    known = "\n".join(f"/{path}/" for path in [*paths(), *(path.removesuffix(".py") for path in paths())])
    assert sorted(path for path in found if f"/{path}/" not in known) == []


@cache
def owners() -> dict[str, list[Path]]:
    """By name, modules and packages that have it, and modules that define a class of that name."""
    found: dict[str, list[Path]] = {}
    for path, text in product().items():
        classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
        for name in {path.stem, *path.relative_to(ROOT).parts[:-1], *classes}:
            found.setdefault(name, []).append(path)
    return found


def test_members_belong_to_their_module_or_class() -> None:
    pairs = {(owner, member): named for named in NAMED
             for owner, member in re.findall(r"(?<![\w.])([A-Za-z_]\w*)\.([A-Za-z_]\w*)\b", named)
             if member not in ("py", "c", "h", "md", "toml")}  # fmt: skip
    assert len(pairs) > 50
    wrong = {}
    for (owner, member), named in pairs.items():
        found = owners().get(owner, [])
        if found and not {owner, member} <= KEYS and not any(member in product_words()[path] for path in found):
            wrong[f"{owner}.{member}"] = named
    assert wrong == {}


def definitions() -> dict[str, list[str]]:
    """By name, the beginning of each definition in the product: enough to hold its parameters or fields."""
    found: dict[str, list[str]] = {}
    for text in product().values():
        for match in re.finditer(r"\bdef (\w+)|^class (\w+)", text, re.MULTILINE):
            found.setdefault(match[1] or match[2], []).append(text[match.start() : match.start() + 1500])
    return found


def test_parameters_belong_to_their_function_or_class() -> None:
    calls = {named: re.match(r"(?:[\w/]+\.)*(\w+)\(([^()]*)\)", named) for named in NAMED}
    defined, wrong = definitions(), []
    for named, call in calls.items():
        if call is None or call[1] == "format":  # Spark's
            continue
        arguments = re.findall(r"\b[a-z_]\w*\b", re.sub(r"=[^,]*", "", call[2]))
        if not any(all(re.search(rf"\b{each}\b", text) for each in arguments) for text in defined.get(call[1], ())):
            wrong.append(named)
    assert len(calls) > 100
    assert wrong == []

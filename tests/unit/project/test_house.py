"""The rules of the tree (tests/support/house/rules.py): what violates them is in allowed.txt or fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.house import rules
from tests.support.house.__main__ import report
from tests.support.house.circles import circles, import_graph
from tests.support.house.tree import Tree

KINDS = ("circle", "class", "docstring", "exports", "family", "files", "mirror", "package")
ADVICE = "python -m tests.support.house --shrink"
DOC = '"""What this room is for."""\n'
USES_B = "from gateway.x import b"
LISTED = f"{DOC}__all__ = ['a']\na = b = 1\n"


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree.read(rules.ROOT)


@pytest.fixture(scope="module")
def found(tree: Tree) -> dict[str, set[str]]:
    return rules.violations(tree)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_violates_no_rule_anew(found: dict[str, set[str]], kind: str) -> None:
    lines = rules.allowed(rules.ALLOWED.read_text("utf-8"))[0].get(kind, set())
    assert sorted(found[kind] - lines) == [], f"new violations ({kind}); see tests/support/house/rules.py"
    assert sorted(lines - found[kind]) == [], f"mended: take it off tests/support/house/allowed.txt ({ADVICE})"


def test_the_product_uses_any_no_more_often(tree: Tree) -> None:
    assert sum(tree.anys().values()) <= rules.allowed(rules.ALLOWED.read_text("utf-8"))[1], tree.anys()


def test_the_list_is_sorted_and_names_no_rule_that_there_is_not() -> None:
    lines = [line for line in rules.ALLOWED.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines))
    assert {line.partition(" ")[0] for line in lines} <= {"any", *KINDS}


def test_a_name_that_modules_share_says_why(tree: Tree) -> None:
    shared = {name for name, at in tree.classes().items() if len(at) > 1}
    assert set(rules.SAME_CONCEPT) - shared == set(), "only one module defines it"
    assert all(len(reason.split()) > 2 for reason in rules.SAME_CONCEPT.values())


def test_helpers_of_tests_have_names_of_their_own() -> None:
    modules = (rules.ROOT / "tests/support").rglob("*.py")
    names = [name for path in modules for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE)]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_report_prints_folders_names_any_and_circles(tree: Tree) -> None:
    text = "\n".join(report(tree))
    for part in ("gateway/", "class names in two", "uses of Any in the product:", "import circles between modules"):
        assert part in text


def make_tree(root: Path, files: dict[str, str]) -> Tree:
    """A tree of these files; each top folder has a docstring."""
    for name, text in {"gateway/__init__.py": DOC, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Tree.read(root)


@pytest.mark.parametrize(
    ("kind", "lines", "files"),
    [
        ("files", {"gateway/wide"}, {f"gateway/wide/m{n}.py": "" for n in range(17)}),
        ("files", set(), {f"gateway/wide/m{n}.py": "" for n in range(16)} | {"gateway/wide/__init__.py": DOC}),
        ("family", {"gateway a"}, {f"gateway/{name}.py": "" for name in ("a", "a_x", "a_y")}),
        ("family", {"tests/unit a"}, {f"tests/unit/test_{name}.py": "" for name in ("a", "a_x", "a_y")}),
        ("family", set(), {f"gateway/{name}.py": "" for name in ("a", "a_x", "ab", "abc_x")}),
        ("docstring", {"gateway/bare", "gateway/none"}, {"gateway/bare/__init__.py": "", "gateway/none/m.py": DOC}),
        ("docstring", {"tests/a"}, {"tests/a/m.py": "", "tests/unit/test_m.py": "", "tests/unit/conftest.py": ""}),
        ("class", {"Same"}, {"gateway/a.py": "class Same: ...", "gateway/b.py": "class Same: ...\nclass Own: ..."}),
        ("class", set(), {"gateway/a.py": "class Same: ...", "tests/b.py": "class Same: ..."}),
        ("exports", {"gateway.x"}, {"gateway/x/__init__.py": LISTED, "gateway/m.py": USES_B}),
        ("exports", set(), {"gateway/x/__init__.py": LISTED, "tests/m.py": "from gateway.x import a"}),
        ("exports", set(), {"gateway/x/__init__.py": DOC, "gateway/x/b.py": DOC, "tests/m.py": USES_B}),
        ("mirror", {"tests/unit/amqp"}, {"gateway/amqp/__init__.py": DOC, "tests/unit/amqp/test_a.py": ""}),
        ("mirror", set(), {"gateway/amqp/__init__.py": DOC, "tests/unit/gateway/amqp/test_a.py": ""}),
        ("mirror", set(), {"tests/unit/test_a.py": "", "tests/unit/project/test_b.py": ""}),
    ],
)
def test_a_violation_is_found(tmp_path: Path, kind: str, lines: set[str], files: dict[str, str]) -> None:
    assert rules.violations(make_tree(tmp_path, files))[kind] == lines


@pytest.mark.parametrize(
    "statement",
    [
        "import gateway.b",
        "from gateway import b",
        "from gateway.b import name",
        "if TYPE_CHECKING:\n    from gateway.b import Name",
        "def late() -> None:\n    from gateway.b import name",
    ],
)
def test_any_import_closes_a_circle(tmp_path: Path, statement: str) -> None:
    back = "from gateway.c import name"
    tree = make_tree(tmp_path, {"gateway/a.py": statement, "gateway/b.py": back, "gateway/c.py": "import gateway.a"})
    assert circles(import_graph(tree)) == [["gateway.a", "gateway.b", "gateway.c"]]


def test_what_only_leads_to_a_circle_is_not_in_it(tmp_path: Path) -> None:
    files = {"gateway/a.py": "import gateway.b", "gateway/b.py": "import gateway.c", "gateway/c.py": "import gateway.b"}
    assert circles(import_graph(make_tree(tmp_path, files))) == [["gateway.b", "gateway.c"]]


def test_packages_have_a_circle_where_their_modules_have_none(tmp_path: Path) -> None:
    files = {"gateway/x/__init__.py": DOC, "gateway/x/a.py": "import gateway.y.a", "gateway/x/b.py": ""}
    tree = make_tree(tmp_path, files | {"gateway/y/__init__.py": DOC, "gateway/y/a.py": "import gateway.x.b"})
    assert circles(import_graph(tree)) == []
    assert circles(rules.package_graph(tree)) == [["gateway.x", "gateway.y"]]
    assert rules.violations(tree)["package"] == {"gateway.x", "gateway.y"}


def test_a_package_and_the_packages_in_it_have_a_circle_too(tmp_path: Path) -> None:
    files = {"gateway/a.py": "import gateway.x.a", "gateway/b.py": "", "gateway/x/__init__.py": DOC}
    tree = make_tree(tmp_path, files | {"gateway/x/a.py": "from gateway import b"})
    assert circles(import_graph(tree)) == []
    assert rules.violations(tree)["package"] == {"gateway", "gateway.x"}


def test_uses_of_any_are_counted_in_code_alone(tmp_path: Path) -> None:
    text = '"""Any."""\nfrom typing import Any\nimport typing\n# Any\nx: Any\ny: dict[str, typing.Any]\n'
    assert make_tree(tmp_path, {"gateway/a.py": text}).anys() == {"gateway": 2}


def test_the_list_follows_a_move_but_never_grows(tmp_path: Path) -> None:
    before = "# Head.\nany 9\nclass Gone\nclass Other\n"
    files = {"gateway/a.py": "class Same: ...", "gateway/b.py": "class Same: ...\nx: Any"}
    assert rules.shrunk(make_tree(tmp_path, files), before) == f"# Head.\nany {1 + rules.SLACK}\nclass Same\n"
    assert rules.shrunk(make_tree(tmp_path, files), "any 0\nclass Gone\n") == "any 0\nclass Same\n"
    with pytest.raises(ValueError, match="Same"):
        rules.shrunk(make_tree(tmp_path, files), "# Head.\nany 9\n")

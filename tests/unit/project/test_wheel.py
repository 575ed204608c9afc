"""A wheel has the three folders below `scopegate`: imports are rewritten, and nothing else names our modules."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from tests.support.project.parts import ROOT
from tests.support.project.texts import texts

sys.path.insert(0, str(ROOT / "scripts"))
import build_backend  # type: ignore[import-not-found]

sys.path.pop(0)
MODULE = re.compile(r"(bridges|gateway|policies)(\.[a-z_]\w*)+")


KEYS = {"gateway.admin"}
"""Keys of the policy, which are no modules there."""


def is_module(name: str) -> bool:
    if not MODULE.fullmatch(name):
        return False
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def test_no_text_of_the_product_names_a_module_of_it() -> None:
    """It would be another one in a wheel: make it of `__name__` or `__package__`."""
    modules = [path for folder in build_backend.FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {(str(path.relative_to(ROOT)), text) for path in modules for text in texts(path) if is_module(text)} - {
        (str(path.relative_to(ROOT)), key) for path in modules for key in KEYS
    }
    assert found == set()


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("from gateway import errors", "from scopegate.gateway import errors"),
        ("    from policies.rules import Route", "    from scopegate.policies.rules import Route"),
        ("import bridges.spark.replay.task  # noqa", "import scopegate.bridges.spark.replay.task  # noqa"),
        ("import policies", "from scopegate import policies"),
        ("from gateways import x", "from gateways import x"),
        ("import policies_of_others", "import policies_of_others"),
    ],
)
def test_imports_are_moved(line: str, moved: str) -> None:
    assert build_backend.moved_imports(f"x = 1\n{line}\n") == f"x = 1\n{moved}\n"


def test_settings_name_the_package_alone() -> None:
    settings = tomllib.loads(build_backend.moved_settings((ROOT / "pyproject.toml").read_text()))
    assert settings["project"]["scripts"] == {"scopegate": "scopegate.gateway.cli.main:main"}
    tools = settings["tool"]["setuptools"]
    assert tools["packages"]["find"]["include"] == ["scopegate*"]
    assert all(module["name"].startswith("scopegate.") for module in tools["ext-modules"])
    files = [file for module in tools["ext-modules"] for file in (*module["sources"], *module["depends"])]
    assert all((ROOT / file.removeprefix("scopegate/")).is_file() for file in files)

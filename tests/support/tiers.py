"""pytest plugin: each test is in one tier, and `make check`, `make test` and `make soak` run one more each.

The folder decides: tests/unit, tests/protocol and tests/property are `check`, tests/integration is `test`, and a test
with `@pytest.mark.soak` is `soak` wherever it is. Soak tests run where they are asked for: by `-m soak`, or by the name
of their file. A run of the whole suite leaves them out, so whatever rows they show another test has to show as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

FOLDERS: Final = {"unit": "check", "protocol": "check", "property": "check", "integration": "test"}
"""Folder of tests/ to tier."""


def tier_of(item: pytest.Item) -> str:
    """The tier of a test: `check`, `test` or `soak`; a usage error where its folder has none."""
    if item.get_closest_marker("soak"):
        return "soak"
    folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    if folder not in FOLDERS:
        raise pytest.UsageError(f"{item.nodeid}: tests/{folder} belongs to no tier (tests/support/tiers.py)")
    return FOLDERS[folder]


def files_named(config: pytest.Config) -> set[Path]:
    """The files that the command line names, each alone or with some of its tests."""
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return {path.resolve() for path in paths if path.is_file()}


def rows_of(items: list[pytest.Item]) -> set[str]:
    """The conformance rows that these tests carry."""
    return {row for item in items for mark in item.iter_markers("row") for row in mark.args}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the soak tests that nobody asked for; no row may go with them."""
    named = files_named(config)
    tiers = [(item, tier_of(item)) for item in items]
    if "soak" in config.option.markexpr:
        return
    out = [item for item, tier in tiers if tier == "soak" and item.path not in named]
    items[:] = [item for item, tier in tiers if tier != "soak" or item.path in named]
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and (lost := rows_of(out) - rows_of(items)):
        raise pytest.UsageError("rows that soak tests alone show: " + ", ".join(sorted(lost)))
    if out:
        config.hook.pytest_deselected(items=out)

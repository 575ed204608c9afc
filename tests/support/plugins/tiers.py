"""pytest plugin: each test is in one tier, and `make check`, `make test` and `make soak` run one more each.

The folder decides: tests/unit, tests/protocol and tests/property are `check`, tests/integration is `test`. What asks
for the fixture of a server or of a part is `test` in any folder, so `make check` works without `make parts`. A test
with `@pytest.mark.soak` is `soak`. Soak tests run where they are asked for: by `--tier soak`, `-m soak` or the name of
their file. A run of the whole suite leaves them out, so whatever rows they show another test has to show as well.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

FOLDERS: Final = {"unit": "check", "protocol": "check", "property": "check", "integration": "test"}
"""Folder of tests/ to tier."""
NEEDING_PARTS: Final = frozenset(
    {"artemis", "cesql_tck", "kafka_broker", "object_store", "own_kafka", "promtool", "redis_server", "spark"}
)
"""Fixtures that start a server, or are what `make parts` fetches: no test of `make check` has one."""


def tier_of(item: pytest.Item) -> str:
    """The tier of a test: `check`, `test` or `soak`; a usage error where its folder has none."""
    if item.get_closest_marker("soak"):
        return "soak"
    folder = _folder(item.path, item.config.rootpath)
    if folder not in FOLDERS:
        raise pytest.UsageError(f"{item.nodeid}: tests/{folder} belongs to no tier (tests/support/plugins/tiers.py)")
    return "test" if NEEDING_PARTS & {*getattr(item, "fixturenames", ())} else FOLDERS[folder]


@cache  # many tests are in one file
def _folder(path: Path, root: Path) -> str:
    """The folder of `tests` that a file is in."""
    return path.relative_to(root / "tests").parts[0]


def files_named(config: pytest.Config) -> set[Path]:
    """The files that the command line names, each alone or with some of its tests."""
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return {path.resolve() for path in paths if path.is_file()}


def rows_of(items: list[pytest.Item]) -> set[str]:
    """The conformance rows that these tests carry."""
    return {row for item in items for mark in item.iter_markers("row") for row in mark.args}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make check` and `make soak`."""
    parser.addoption("--tier", choices=["check", "test", "soak"], help="run the tests of this tier alone")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of other tiers than the one asked for, or soak tests that nobody asked for."""
    only, named, marked = config.getoption("tier"), files_named(config), "soak" in config.option.markexpr

    def stays(item: pytest.Item) -> bool:
        tier = tier_of(item)
        return tier == only if only else tier != "soak" or marked or item.path in named

    kept = {item: stays(item) for item in items}
    out = [item for item in items if not kept[item]]
    items[:] = [item for item in items if kept[item]]
    if not only and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        refuse_lost_rows(out, items)
    if out:
        config.hook.pytest_deselected(items=out)


def refuse_lost_rows(out: list[pytest.Item], kept: list[pytest.Item]) -> None:
    """Stop a whole run that does not show a row because nothing but a soak test shows it."""
    if lost := rows_of(out) - rows_of(kept):
        raise pytest.UsageError("rows that soak tests alone show: " + ", ".join(sorted(lost)))

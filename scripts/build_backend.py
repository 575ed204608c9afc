"""The build backend: setuptools, for a wheel in which everything is below one package, `scopegate`.

`gateway`, `bridges` and `policies` are names that other distributions use, too (the last two are on the index). So a
wheel is built from a copy of the three folders below `scopegate`, in which their imports say so: the wheel has
`scopegate.gateway`, `scopegate.bridges` and `scopegate.policies`, and nothing else. Source distributions and editable
installs, as `make` uses them, have the tree as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PACKAGE = "scopegate"
FOLDERS = ("bridges", "gateway", "policies")
_FILES = ("LICENSE", "README.md")
_NAMES = "|".join(FOLDERS)
_FROM = re.compile(rf"^(\s*from )({_NAMES})(?=[. ])", re.MULTILINE)
_IMPORT_MODULE = re.compile(rf"^(\s*import )({_NAMES})(?=\.)", re.MULTILINE)
_IMPORT = re.compile(rf"^(\s*)import ({_NAMES})$", re.MULTILINE)
_INIT = '"""ScopeGate, as a wheel installs it; the packages below are the folders of the source tree."""\n'
Settings = Mapping[str, Any] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel; see PEP 517."""
    place, metadata = os.path.abspath(wheel_directory), metadata_directory and os.path.abspath(metadata_directory)
    with _staged():
        name: str = build_meta.build_wheel(place, config_settings, metadata)
    return name


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Write the metadata of the wheel; see PEP 517."""
    place = os.path.abspath(metadata_directory)
    with _staged():
        name: str = build_meta.prepare_metadata_for_build_wheel(place, config_settings)
    return name


@contextmanager
def _staged() -> Iterator[None]:
    """Work in a copy of the tree that has everything below `scopegate`."""
    source = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="scopegate-wheel-") as folder:
        stage(source, Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(source)


def stage(source: Path, target: Path) -> None:
    """Write the copy."""
    (target / PACKAGE).mkdir()
    (target / PACKAGE / "__init__.py").write_text(_INIT)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(source / name, target / PACKAGE / name, ignore=ignored)
    for name in _FILES:
        shutil.copy(source / name, target / name)
    for path in [*target.rglob("*.py"), *target.rglob("*.pyi")]:
        path.write_text(moved_imports(path.read_text()))
    (target / "pyproject.toml").write_text(moved_settings((source / "pyproject.toml").read_text()))


def moved_imports(text: str) -> str:
    """Python source whose imports of the three packages are those of `scopegate`."""
    text = _FROM.sub(rf"\1{PACKAGE}.\2", text)
    text = _IMPORT.sub(rf"\1from {PACKAGE} import \2", text)
    return _IMPORT_MODULE.sub(rf"\1{PACKAGE}.\2", text)


def moved_settings(text: str) -> str:
    """pyproject.toml, up to what only tools of the source tree read, for the copy."""
    text = text.partition("[tool.ruff]")[0]
    text = text[text.index("[project]") :]
    text = re.sub(rf'"({_NAMES})/', rf'"{PACKAGE}/\1/', text)  # sources of C modules
    text = re.sub(rf'"({_NAMES})\.', rf'"{PACKAGE}.\1.', text)  # modules
    text = re.sub(rf"^({_NAMES}) = ", rf'"{PACKAGE}.\1" = ', text, flags=re.MULTILINE)  # package data
    return text.replace('include = ["gateway*", "bridges*", "policies*"]', f'include = ["{PACKAGE}*"]')

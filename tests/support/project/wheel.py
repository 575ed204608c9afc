"""The wheel of this tree, built once for all tests that need it, and again when a file in it has changed."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.project.parts import ROOT

CACHE: Final = ROOT / "build" / "wheels-of-tests"
FOLDERS: Final = ("gateway", "bridges", "policies", "scripts")
FILES: Final = ("pyproject.toml", "README.md", "LICENSE")
"""What the wheel is built from, as deploy/Dockerfile copies it."""
_IGNORED: Final = ("__pycache__", "*.so", "*.pyc")


def built() -> Path:
    """Return the wheel; whoever asks first builds it, in a copy of the sources, and others wait for that."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = CACHE / _digest()
        if not any(place.glob("scopegate-*.whl")):
            for older in CACHE.glob("*/"):
                shutil.rmtree(older)
            _build(place)
        return next(place.glob("scopegate-*.whl"))


def _build(place: Path) -> None:
    source = place / "src"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns(*_IGNORED))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", ".", "./src"]
    subprocess.run([sys.executable, *build], check=True, cwd=place)
    shutil.rmtree(source)


def _digest() -> str:
    """What stands for the sources and this Python."""
    found = hashlib.sha256(sys.version.encode())
    for path in _sources():
        found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for name in FOLDERS:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and path.suffix not in (".so", ".pyc"):
                yield path
    yield from (ROOT / name for name in FILES)

"""Installs the product as the first stage of deploy/Dockerfile does, in a virtual environment below a folder.

`by_every_step` runs each step but apt's. `from_this_environment` takes what the lock files name from the environment of
the suite, where `make` has installed them by the same commands: pip reads 30,000 links of an index for that.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tests.support.project import dockerfile
from tests.support.project.parts import ROOT

_IMAGE_PLACE: Final = "/opt/scopegate"
_PIP: Final = f"{_IMAGE_PLACE}/bin/pip install --no-build-isolation"
_VENV: Final = f"python3 -m venv {_IMAGE_PLACE}"
_LOCKED: Final = re.compile(rf"{_PIP} --require-hashes -r (\S+\.lock)")
_OURS: Final = f"{_PIP} --no-deps ."
_PINNED: Final = re.compile(r"^([a-z].*?)(?: \\)?$", re.MULTILINE)


def by_every_step(folder: Path) -> Path:
    """Do what the image does; the folder of the commands."""
    return _install(folder, _run)


def from_this_environment(folder: Path) -> Path:
    """The same, with copies of the locked packages; our wheel is kept in `folder / "wheel"`."""
    return _install(folder, _cheaply)


def clean_environment() -> dict[str, str]:
    """Return the environment without anything of the project or its own virtual environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def site_packages(commands: Path) -> Path:
    """Return where the packages are."""
    return next(commands.parent.glob("lib/python*/site-packages"))


def installed_in(commands: Path) -> set[tuple[str, str]]:
    """Names and versions of what is installed."""
    return {(each.name, each.version) for each in distributions(path=[str(site_packages(commands))])}


def _install(folder: Path, run: Callable[[str, Path], None]) -> Path:
    (folder / "src").mkdir()
    build, _ = dockerfile.stages()
    for name, value in build:
        if name == "COPY":
            _copy(value, folder)
        elif name == "RUN" and "apt-get" not in value:
            run(value, folder)
    return folder / "opt" / "bin"


def _run(command: str, folder: Path) -> None:
    """Run a RUN instruction with this Python instead of the image's."""
    here = command.replace("python3 ", f"{shlex.quote(sys.executable)} ")
    here = here.replace(_IMAGE_PLACE, shlex.quote(str(folder / "opt")))
    result = subprocess.run(
        here, shell=True, cwd=folder / "src", env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{here}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"


def _copy(value: str, folder: Path) -> None:
    """Do what a COPY instruction does."""
    *sources, target = value.split()
    for source in sources:
        path = ROOT / source
        if path.is_dir():
            shutil.copytree(path, folder / "src" / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / "src" / target)


def _cheaply(command: str, folder: Path) -> None:
    """Have the effect of a RUN instruction: what is not one of the known ones is run."""
    if command == _VENV:
        _run(f"{_VENV} --without-pip", folder)
        _take("pip", folder)
    elif locked := _LOCKED.fullmatch(command):
        for name in _named(folder / "src" / locked[1]):
            _take(name, folder)
    elif command == _OURS:
        pip = f"{_IMAGE_PLACE}/bin/python -m pip --disable-pip-version-check"
        _run(f"{pip} wheel --no-build-isolation --no-deps --wheel-dir ../wheel .", folder)
        _run(f"{pip} install --no-deps --no-compile ../wheel/*.whl", folder)
    else:
        _run(command, folder)


def _named(lock: Path) -> Iterator[str]:
    """The distributions of a lock file; each is installed here in the version that is locked."""
    for line in _PINNED.findall(lock.read_text()):
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate():
            assert distribution(wanted.name).version in wanted.specifier, line
            yield wanted.name


def _take(name: str, folder: Path) -> None:
    """Copy what a distribution has in the suite's environment, but for its commands, which name that one's Python."""
    target = site_packages(folder / "opt" / "bin")
    for file in distribution(name).files or ():
        if file.parts[0] != "..":
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), target / file)

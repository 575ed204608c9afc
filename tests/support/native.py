"""The extension modules compiled once more with other flags, beside those that the product is installed with."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.support.parts import ROOT

_SETUP = "from setuptools import setup; setup()"


def modules() -> dict[str, Path]:
    """Return the extension modules that pyproject.toml names, each with its source."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    return {each["name"]: ROOT / each["sources"][0] for each in found}


def compile_modules(tree: Path, target: Path, flags: Sequence[str]) -> None:
    """Compile the modules of a tree of sources into a folder; objects go to `target/objects`.

    Raises subprocess.CalledProcessError: the compiler or the linker failed; what they said is on stderr.
    """
    command = [sys.executable, "-W", "ignore", "-c", _SETUP, "--quiet", "build_ext", "--build-lib", str(target)]
    said = " ".join(flags)
    env = {**os.environ, "CFLAGS": said, "LDFLAGS": said}
    subprocess.run(
        [*command, "--build-temp", str(target / "objects"), "--force"], cwd=tree, env=env, check=True, timeout=600
    )

"""Report in one line the packages that `make` needs to build the environment; runs on any Python from 3.7 on."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig


def missing() -> list[tuple[str, str]]:
    """Return a pair (missing part, Debian package) for each part of the build that is not installed."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    headers = os.path.join(sysconfig.get_path("include") or "", "Python.h")
    found = (
        (sys.version_info >= (3, 11), "Python 3.11 or later (PYTHON=... chooses another)", "python3"),
        (importlib.util.find_spec("ensurepip") is not None, "the venv module", "python3-venv"),
        (shutil.which(compiler.split()[0]) is not None, "a C compiler", "gcc"),
        (os.path.exists(headers), "the Python headers", "python3-dev"),
    )
    return [(what, package) for present, what, package in found if not present]


if __name__ == "__main__":
    gaps = missing()
    if gaps:
        what = " and ".join(name for name, _ in gaps)
        sys.exit(f"Missing: {what}. Install with: apt-get install {' '.join(package for _, package in gaps)}")

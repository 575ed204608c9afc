"""`python -m tests.coverage FOLDER`: compile the C modules for gcov into a folder, and forget earlier counts.

What SlipCover makes of the product's modules is made first where they have changed; all processes of a run use it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.coverage import kept
from tests.coverage.measuring import LINES, MODULES
from tests.support.project.native import compile_modules

COUNTED = Path(__file__).with_name("counted.h")


def prepare(folder: Path) -> None:
    """Leave an empty list of lines and freshly compiled modules in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    compile_modules(folder / MODULES, ["--coverage", "-include", str(COUNTED)])
    (folder / LINES).touch()


if __name__ == "__main__":
    kept.prepare()
    prepare(Path(sys.argv[1]).resolve())

"""What SlipCover makes of each module of the product, made once for all processes and runs: its code, and its lines.

Up to Python 3.11 it writes probes into byte code, which takes each measured process twice as long as importing. Probes
cannot be written to a file: there, each is a mark with its line.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Final, NamedTuple
from unittest.mock import patch

import slipcover.slipcover
from slipcover import Slipcover
from slipcover.version import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("gateway", "bridges", "policies")
PLACE: Final = ROOT / "build" / "probes"
MARK: Final = "a probe of scopegate's suite"
FORGET_NO_PROBE: Final = -1
"""SlipCover takes probes out by looking for functions in the whole heap, which holds a gateway up; they stay."""
IN_CODE: Final = sys.version_info < (3, 12)
"""Whether probes are in the code; from Python 3.12 on the interpreter reports lines itself."""


class Kept(NamedTuple):
    """What is known of a source file."""

    code: CodeType
    """With a mark for each probe; as it is compiled where probes are not in the code."""
    lines: frozenset[int]
    """Those that count."""


def sources() -> Iterator[Path]:
    """The Python modules of the product."""
    for name in PRODUCT:
        yield from (ROOT / name).rglob("*.py")


def prepare(place: Path = PLACE) -> None:
    """Make anew what is missing, or has changed."""
    for source in sources():
        if kept(source, place) is None:
            file = _file(source, place)
            file.parent.mkdir(parents=True, exist_ok=True)
            stamp, made = _stamp(source), made_of(source)
            ours = file.with_suffix(f".{os.getpid()}")
            ours.write_bytes(marshal.dumps((stamp, made.code, sorted(made.lines))))
            ours.replace(file)  # another run may read it meanwhile


def kept(source: Path, place: Path = PLACE) -> Kept | None:
    """Return what was made of a source file as it is now; None if nothing was."""
    try:
        stamp, code, lines = marshal.loads(_file(source, place).read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return Kept(code, frozenset(lines)) if stamp == _stamp(source) else None


def made_of(source: Path) -> Kept:
    """Return what SlipCover makes of a source file."""
    code = SourceFileLoader("module", str(source)).get_code("module")
    assert code is not None
    probed = Slipcover(d_miss_threshold=FORGET_NO_PROBE)
    lines = frozenset(Slipcover.lines_from_code(code)) - probed._compute_excluded_lines(source.read_text())
    if not IN_CODE:
        return Kept(code, lines)
    marks = SimpleNamespace(signal=(MARK,), new=lambda _slipcover, _file, line, _threshold: (MARK, line))
    with patch.object(slipcover.slipcover, "probe", marks):
        return Kept(probed.instrument(code, code), lines)


def _file(source: Path, place: Path) -> Path:
    return place / source.relative_to(ROOT).with_suffix(".marshal")


def _stamp(source: Path) -> tuple[object, ...]:
    """Return what a file was made from: as for byte code, its size and time, and what makes it."""
    about = source.stat()
    return str(source), about.st_size, about.st_mtime_ns, sys.version, __version__

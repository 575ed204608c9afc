"""`make sanitize`: a fault in a process leaves a report and ends it, whoever looks at its output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.sanitize.__main__ import FLAGS, TESTS, environment
from tests.support.project.native import modules
from tests.support.project.parts import ROOT

FREED_TWICE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
place = libc.malloc(8)
libc.free(place)
libc.free(place)
"""
OVERFLOW = "int scopegate_sum(int number) { return number + 1; }"
SUM = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).scopegate_sum(2**31 - 1)"


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code of a sanitized process, and its reports."""
    (folder / "reports").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", *arguments], env=environment(folder), capture_output=True, timeout=120, check=False
    )
    return done.returncode, "".join(file.read_text() for file in (folder / "reports").iterdir())


def test_memory_freed_twice_is_reported(tmp_path: Path) -> None:
    code, report = run(tmp_path, FREED_TWICE)
    assert code != 0
    assert "attempting double-free" in report


def test_undefined_behaviour_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(OVERFLOW)
    library = str(tmp_path / "sum.so")
    command = ["gcc", *FLAGS, "-shared", "-fPIC", str(tmp_path / "sum.c"), "-o", library]
    subprocess.run(command, check=True, timeout=120)
    code, report = run(tmp_path, SUM, library)
    assert code != 0
    assert "AddressSanitizer: ILL" in report
    assert "sum.c:1" in report, "the stack says where"


def test_what_has_no_fault_leaves_no_report(tmp_path: Path) -> None:
    assert run(tmp_path, "import json; json.loads('[1]')") == (0, "")


def test_every_module_and_every_test_it_names_is_there() -> None:
    names = {name.rpartition("_")[2] for name in modules()}
    assert names == {"batch", "decode", "fetch", "produce", "rows", "sections"}
    assert all((ROOT / name).exists() for name in TESTS)

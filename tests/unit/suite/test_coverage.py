"""Coverage of the suite: a process, what it forks and C are counted, and a figure below its floor is told."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from unittest.mock import patch

import pytest

from tests.coverage import figures, kept
from tests.coverage.figures import Figure
from tests.coverage.measuring import LINES, ROOT, Probes
from tests.support.project.native import compile_modules

REACHING = """
import os, sys
import tests
from gateway.amqp.codec import encoder, decoder
if (child := os.fork()) == 0:
    from gateway.response import rate_limit as rate
    sys.exit(0)
os.waitpid(child, 0)
"""
COUNTING = """
import tests
from gateway.amqp.message import _sections
assert _sections.__file__.startswith(tests.measuring.active.folder.as_posix()), _sections.__file__
"""


def run(folder: Path, code: str) -> None:
    """Run code in a process that is measured."""
    (folder / LINES).touch()
    env = {**os.environ, "SCOPEGATE_COVERAGE": str(folder), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=True, timeout=120)


def reached(of: list[Figure]) -> dict[str, int]:
    return {each.name: each.reached for each in of}


def test_a_process_and_the_one_it_forks_count_and_what_nobody_imports_has_its_lines(tmp_path: Path) -> None:
    run(tmp_path, REACHING)
    found = {each.name: each for each in figures.python(tmp_path)}
    assert 0 < found["gateway/amqp/codec/encoder.py"].reached < found["gateway/amqp/codec/encoder.py"].lines
    assert found["gateway/response/rate_limit.py"].reached, "what the child imported"
    assert found["bridges/spark/report/page/plots.py"].reached == 0
    assert found["bridges/spark/report/page/plots.py"].lines > 100
    first, second = (tmp_path / LINES).read_text().splitlines()
    assert "gateway/amqp/codec/encoder.py" not in first, "the child, which ends first, repeats nothing of its parent's"
    assert "gateway/amqp/codec/encoder.py" in second


def test_lines_of_c_count_once_whatever_includes_them(tmp_path: Path) -> None:
    counted = ROOT / "tests" / "coverage" / "counted.h"
    compile_modules(tmp_path / "modules", ["--coverage", "-O0", "-include", str(counted)])
    before = figures.c(tmp_path)
    assert not any(reached(before).values())
    run(tmp_path, COUNTING)
    after = figures.c(tmp_path)
    assert reached(after)["gateway/amqp/message/_sections.c"] > 0
    names = [each.name for each in after]
    assert len(names) == len(set(names))
    assert {"gateway/amqp/message/_section.h", "bridges/kafka/consume/_fetch.c"} <= set(names)


def test_a_figure_below_its_floor_is_told_and_the_ten_least_covered_are_listed() -> None:
    files = [Figure(f"gateway/m{number}.py", number, 20) for number in range(20)]
    totals = [figures.total("python", files), Figure("c", 3, 4)]
    assert totals[0] == Figure("python", 190, 400)
    assert figures.below(totals, {"python": 47.5, "c": 75.0}) == []
    (reported,) = figures.below(totals, {"python": 47.6, "c": 75.0})
    assert reported.startswith("coverage of python is 47.50 %, below the floor of 47.6 %")
    lines = figures.table(totals, files)
    assert lines[:2] == ["python: 47.50 % of 400 lines", "c: 75.00 % of 4 lines"]
    assert [line.split()[-1] for line in lines[3:]] == [f"gateway/m{number}.py" for number in range(10)]
    assert figures.floor().keys() == {"python", "c"}


def code_of(source: Path) -> CodeType:
    """Return the code of a module as Python imports it."""
    code = SourceFileLoader("module", str(source)).get_code("module")
    assert code is not None
    return code


def shape(code: CodeType) -> list[object]:
    """Return what runs in a code object and in those within it; of a constant, what it is."""
    consts = [shape(each) if isinstance(each, CodeType) else type(each) for each in code.co_consts]
    return [code.co_code, code.co_stacksize, code.co_exceptiontable, code.co_linetable, code.co_names, *consts]


@pytest.mark.skipif(not kept.IN_CODE, reason="from Python 3.12 on the interpreter reports lines itself")
def test_code_with_probes_is_kept_as_slipcover_makes_it(tmp_path: Path) -> None:
    source = ROOT / "gateway" / "amqp" / "codec" / "encoder.py"
    with patch.object(kept, "sources", lambda: [source]):
        kept.prepare(tmp_path)
    plain, anew, again = code_of(source), Probes(tmp_path / "none"), Probes(tmp_path)
    ours = again.instrument(plain)
    assert shape(ours) == shape(anew.instrument(plain)) != shape(plain)
    namespace: dict[str, object] = {"__name__": "module"}
    exec(ours, namespace)
    assert again._get_newly_seen()[str(source)] & kept.made_of(source).lines
    assert {*again._plain} > {ours}, "also of the functions in it: Spark pickles them"
    assert again._plain[ours] is plain


def test_what_is_kept_is_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    source = ROOT / "gateway" / "errors.py"
    with patch.object(kept, "sources", lambda: [source]):
        kept.prepare(tmp_path)
    found = kept.kept(source, tmp_path)
    assert found is not None
    assert found.lines == kept.made_of(source).lines
    (file,) = [each for each in tmp_path.rglob("*") if each.is_file()]
    with patch.object(kept, "_stamp", lambda _: ("changed",)):
        assert kept.kept(source, tmp_path) is None
    file.write_bytes(file.read_bytes()[:100])
    assert kept.kept(source, tmp_path) is None, "one that was cut off"

"""All files with Spark go to one worker, and long files come first."""

from __future__ import annotations

import pytest

from tests.support.plugins.order import LONG, SPARK, group, ordered
from tests.support.project.parts import ROOT

INI = """
[pytest]
testpaths = tests
addopts = -p tests.support.plugins.order -n 2 --dist loadfile --no-loadscope-reorder -v
"""
TEST = """
class SparkSession: ...

import pytest

@pytest.fixture
def spark(): ...

def test_one(spark: SparkSession) -> None: ...
def test_two() -> None: ...
def test_three() -> None: ...
"""


def test_the_long_files_are_there() -> None:
    for name in LONG:
        folder, _, stem = name.rpartition("/")
        file = f"tests/integration/{folder}/test_{stem}.py"
        assert group(ROOT, file) == file
    assert group(ROOT, "tests/integration/spark/test_stream.py") == SPARK[0]
    assert group(ROOT, "tests/unit/bridges/spark/test_column.py") == SPARK[1]


def test_long_ones_come_first() -> None:
    files = [f"tests/{name}.py" for name in ("unit/test_a", "property/test_a", "integration/test_a", "other/test_a")]
    long = ["tests/integration/{}/test_{}.py".format(*name.rsplit("/", 1)) for name in LONG]
    units = dict.fromkeys([*files, *reversed(long), *reversed(SPARK)])
    assert list(ordered(units)) == [*SPARK, *long, files[2], files[1], files[0], files[3]]


def test_files_with_spark_share_a_worker(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(INI)
    for name, text in {"a": TEST, "b": TEST.replace("SparkSession", "object"), "c": TEST}.items():
        file = pytester.path / "tests" / "unit" / f"test_{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=9)
    lines = [line for line in result.outlines if "PASSED" in line]
    workers = {name: {line.split("]")[0] for line in lines if f"test_{name}.py" in line} for name in "abc"}
    assert all(len(each) == 1 for each in workers.values())
    assert workers["a"] == workers["c"] != workers["b"]

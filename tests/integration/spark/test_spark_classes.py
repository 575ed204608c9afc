"""The archive of Spark's classes is used by the suite's Spark, and bears what it does not fit without a word."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project.commands import program
from tests.support.project.parts import folder
from tests.support.spark.spark_classes import NAME, sharing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_suites_spark_has_mapped_it(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    archive = (folder("spark-classes") / NAME).resolve()
    assert str(archive) in Path(f"/proc/{context._gateway.proc.pid}/maps").read_text()


@pytest.mark.parametrize("kept", [True, False], ids=["of another class path", "not there"])
def test_one_that_does_not_fit_is_passed_over_in_silence(tmp_path: Path, kept: bool) -> None:
    place = tmp_path / "a folder"
    place.mkdir()
    if kept:
        (place / NAME).symlink_to(folder("spark-classes") / NAME)
    java = [program("java"), *shlex.split(sharing(place)), "-cp", str(tmp_path), "--version"]
    said = subprocess.run(java, capture_output=True, text=True, check=True)
    plain = subprocess.run([program("java"), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.replace(", sharing", "") == plain.stdout.replace(", sharing", "")
    assert said.stderr == ""

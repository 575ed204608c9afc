"""What Spark is started with: failed tasks are tried again, and its own lines go where they are asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridges.spark import session


@pytest.mark.parametrize(
    ("master", "used"),
    [
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local", "local[1,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[*, 3]", "local[*, 3]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_local_tasks_are_tried_again(master: str, used: str) -> None:
    assert session.with_retries(master) == used


@pytest.mark.parametrize("named", [False, True])
def test_lines_of_java_go_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str], named: bool) -> None:
    log = tmp_path / "spark.log"
    with session._log_of_java(str(log) if named else None) as stream:
        os.write(2, b"WARNING: Using incubator modules\n\nUnrecognized VM option\n")
        assert session._last_line(stream) == " (Unrecognized VM option)"
    os.write(2, b"a line of ours\n")
    assert capfd.readouterr().err == "a line of ours\n"
    assert log.exists() == named
    with session._log_of_java("-") as stream:
        os.write(2, b"seen\n")
        assert session._last_line(stream) == ""
    assert capfd.readouterr().err == "seen\n"


def test_the_reason_of_java_is_not_a_frame_of_its_stack(tmp_path: Path) -> None:
    """`--master nonsense` was explained by "at org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)"."""
    log = tmp_path / "log"
    log.write_text("Exception in thread main: Master must be k8s\n\tat org.a.B.main(B.scala:3)\n\t... 5 more\n")
    with log.open("rb") as stream:
        assert session._last_line(stream) == " (Exception in thread main: Master must be k8s)"

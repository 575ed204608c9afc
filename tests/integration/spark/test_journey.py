"""`scopegate pipeline quickstart --once`, what `make run-pipeline` runs: every step verified, or said not to be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.gateway.process import Process, free_port, fresh_folder
from tests.support.project.parts import ROOT
from tests.support.spark.pipeline import here

EXAMPLE = (ROOT / "policies/examples/pipeline.yaml").read_text()
PORTS = ("5672", "5673", "8672")
SECONDS = 540.0


def journey(folder: Path, text: str = EXAMPLE) -> tuple[int, str]:
    """Exit code and output of the command on free ports."""
    for port in PORTS:
        assert f":{port}" in text, f"the example no longer listens on {port}"
        text = text.replace(f":{port}", f":{free_port()}")
    path = fresh_folder("journey") / "policy.yaml"
    path.write_text(text)
    words = ["pipeline", "quickstart", "--once", "--policy", str(path), "--folder", str(folder)]
    command = [sys.executable, "-m", "gateway.cli.main", *words]
    process = Process("journey", command, env={"PYTHONPATH": str(ROOT), "TMPDIR": str(path.parent)})
    try:
        return process.wait(SECONDS), process.text()
    finally:
        process.discard()


def test_every_step_is_verified(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    code, text = journey(folder)
    assert code == 0, text
    said = " ".join(text.split())
    for claim in (
        "5,000 accepted, each after Kafka's acknowledgement",
        "group billing has them all, through 3 links",
        "nobody may read payroll/salaries: amqp:unauthorized-access",
        "5,000 events, byte for byte those that were sent",
        "it finds what was changed, and nothing else",
        "5,000 events at events/again, byte for byte",
        "in the order of sending for each customer",
        "archive and journal agree with what was sent",
        "the audit's filter took one in ten, the group took all",
        "the lag of the group shows in the report",
    ):
        assert f"ok {claim}" in said, text
    assert "FAILED" not in text
    for command in ("archive", "verify", "simulate", "replay", "report"):
        assert f"$ scopegate pipeline {command} " in said  # a long path folds the line
    assert (folder / "report" / "report.html").is_file()


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (("      - {who: \"*\", may: send, on: \"svc/*\"}\n", ""), "amqp:unauthorized-access"),
        (('on: "events/*"}', 'on: ["events/*", "payroll/**"]}'), "nobody may read payroll/salaries"),
    ],
)  # fmt: skip
def test_a_policy_that_is_not_as_it_should_be_fails_its_step(
    tmp_path: Path, change: tuple[str, str], step: str
) -> None:
    assert EXAMPLE.count(change[0]) == 1
    code, text = journey(tmp_path / "pipeline", EXAMPLE.replace(*change))
    assert code == 1
    assert step in text
    assert "FAILED" in text
    assert "archive" not in text.split("FAILED")[0].partition("Traffic through")[2]  # nothing after it was tried


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = here("quickstart", "--once", "--folder", tmp_path)
    assert said.returncode == 1
    assert "is not from an earlier run: choose another --folder" in said.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine"

"""`scopegate pipeline simulate` as a Spark job and as a command: known answers, every row told, one sentence for what
is wrong."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from bridges.spark.simulate import job, journal_checks
from bridges.spark.simulate.policy_diff import NOTHING
from gateway.config.policy import load
from policies.rules import CompiledPolicy
from tests.support.amqp.messages import message
from tests.support.filters.rows import batch_of
from tests.support.gateway.process import PATIENCE
from tests.support.project.parts import ROOT
from tests.support.spark import archives
from tests.support.spark.pipeline import here, lent
from tests.support.spark.simulation import JOURNAL, KNOWN, NOW, candidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def policies(folder: Path) -> tuple[Path, Path]:
    """Write both policies; return their files."""
    now, new = folder / "now.yaml", folder / "new.yaml"
    now.write_text(NOW)
    new.write_text(candidate())
    return now, new


def loaded(folder: Path) -> tuple[CompiledPolicy, CompiledPolicy]:
    now, new = policies(folder)
    return load(now, with_secrets=False), load(new, with_secrets=False)


def written(path: Path, rows: Iterable[dict[str, Any]] = JOURNAL) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def differences(outcome: job.SimulationOutcome) -> dict[tuple[str | None, str, str | None], tuple[str, ...]]:
    return {
        (each.finding.case.user, each.finding.case.action, each.finding.case.address): each.finding.differences
        for each in outcome.findings
        if each.finding.case.reply_to is None
    }


def test_known_answers_from_json(spark: SparkSession, tmp_path: Path) -> None:
    rows = job.journal_rows(spark, [written(tmp_path / "journal.jsonl")])
    assert journal_checks.check(rows, skip_bad=False) == 3
    cases = job.journal_cases(rows)
    outcome = job.simulate(cases, *loaded(tmp_path), job.known_of(rows))
    assert differences(outcome) == KNOWN
    room = next(each for each in outcome.findings if each.finding.case.address == "chat/room" and each.attached == 3)
    assert (room.messages, room.bytes, room.samples) == (20, 2000, 0)
    (sample,) = [each for each in outcome.findings if each.finding.case.reply_to == "home/1"]
    assert (sample.messages, sample.samples, sample.finding.differences) == (0, 1, ("rewritten",))
    assert outcome.surprises() == 0
    assert outcome.span == (1000, 11999)
    assert sum(each.messages for each in outcome.findings) == 90


def test_the_topic_as_parquet_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    values = [(json.dumps(row).encode(),) for row in JOURNAL]
    spark.createDataFrame(values, "body binary").write.parquet(str(tmp_path / "archive"))
    rows = job.journal_rows(spark, [str(tmp_path / "archive")])
    outcome = job.simulate(job.journal_cases(rows), *loaded(tmp_path), job.known_of(rows))
    assert differences(outcome) == KNOWN
    rows.where("_bad is null").drop("_bad").write.parquet(str(tmp_path / "rows"))
    again = job.journal_rows(spark, [str(tmp_path / "rows")])
    outcome = job.simulate(job.journal_cases(again), *loaded(tmp_path), job.known_of(again))
    assert differences(outcome) == KNOWN


def test_an_archive_is_read_as_far_as_it_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    sent = [EventRow(0, at, 1000, None, message(b"x", to=to)) for at, to in enumerate(("chat/closed", "svc/x"))]
    logs = {"scopegate.journal": archives.journal(JOURNAL), "orders": sent}
    path = archives.written(tmp_path / "archive", logs).path
    stray = path / "address=scopegate.journal" / "date=1970-01-01" / "stray.parquet"
    stray.write_bytes(b"not committed, and no Parquet")
    for given in (path, path / "address=scopegate.journal"):
        rows = job.journal_rows(spark, [str(given)])
        assert journal_checks.check(rows, skip_bad=False) == 3
        outcome = job.simulate(job.journal_cases(rows), *loaded(tmp_path), job.known_of(rows))
        assert differences(outcome) == KNOWN
    frame = job.archived(spark, str(path / "address=orders"))
    assert frame is not None
    cases = job.message_cases(frame, scope="edge", user="app", by="to")
    outcome = job.simulate(cases, *loaded(tmp_path), NOTHING)
    assert {each.finding.case.address: each.finding.differences for each in outcome.findings} == {
        "chat/closed": ("denied",), "svc/x": ("rewritten",),
    }  # fmt: skip
    with pytest.raises(PipelineError, match=r"has no address payments \(it has: orders, scopegate.journal\)"):
        job.archived(spark, str(path / "address=payments"))
    assert job.archived(spark, str(tmp_path)) is None


def test_every_row_is_told_its_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    rows = job.journal_rows(spark, [written(tmp_path / "journal.jsonl", [*JOURNAL, *JOURNAL])])
    cases = job.journal_cases(rows)
    outcome = job.simulate(cases, *loaded(tmp_path), job.known_of(rows))
    reported = job.annotated_rows(cases, outcome)
    assert "Python" not in reported._jdf.queryExecution().toString()  # no row passes through Python
    found = reported.collect()
    assert len(found) == 2 * sum(row["kind"] in ("link", "message") for row in JOURNAL)
    for row in found:
        if row["reply_to"] is None:
            assert tuple(row["differences"]) == KNOWN[row["user"], row["action"], row["address"]]
    closed = [row for row in found if row["address"] == "chat/closed"]
    assert {row["after"] for row in closed} == {"denied with amqp:unauthorized-access"}


def test_archived_messages(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sent = [message(b"x", to="chat/closed"), message(b"y", to="svc/x", reply_to="$temp/abc"), message(b"z")]
    sent += [message(b"w", to="chat/room", reply_to="home/1")]
    table = pa.Table.from_batches([batch_of(sent)]).append_column("address", pa.array(["orders/a"] * len(sent)))
    pq.write_table(table.select(["address", "properties"]), tmp_path / "archive.parquet")
    frame = job.parquet(spark, str(tmp_path / "archive.parquet"))
    by_to = job.message_cases(frame, scope="edge", user="app", by="to")
    outcome = job.simulate(by_to, *loaded(tmp_path), NOTHING)
    assert {each.finding.case.address: each.finding.differences for each in outcome.findings} == {
        "chat/closed": ("denied",), "svc/x": ("rewritten",), "chat/room": (),
    }  # fmt: skip
    by_address = job.message_cases(frame, scope="edge", user="app", by="address")
    outcome = job.simulate(by_address, *loaded(tmp_path), NOTHING)
    assert {each.finding.differences for each in outcome.findings} == {("routed",)}
    assert sum(each.samples for each in outcome.findings) == len(sent)


def command(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `scopegate pipeline …` as a process."""
    program = [sys.executable, "-c", "from gateway.cli.main import main; main()", "pipeline", *map(str, arguments)]
    full = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(program, capture_output=True, text=True, env=full, timeout=10 * PATIENCE, check=False)


def test_the_command_for_a_change_review(spark: SparkSession, tmp_path: Path) -> None:
    now, new = policies(tmp_path)
    journal = written(tmp_path / "journal.jsonl")
    out = tmp_path / "told"
    with lent(spark):
        done = here("simulate", "--policy", now, "--candidate", new, "--journal", journal, "--out", out)
    assert done.returncode == 3, done.stderr
    assert "12 links with 90 messages, 1 message looked at singly" in done.stdout
    assert "denied: was allowed, and would be denied - 2 links with 20 messages" in done.stdout
    assert "app sends to chat/closed in scope edge" in done.stdout
    assert "denied with amqp:unauthorized-access" in done.stdout
    assert "kafka (scope edge, cluster main, topic new-a)" in done.stdout
    assert f"{new}:" in done.stdout  # the lines of the candidate that decide
    assert "The journal is not whole: 3 rows were lost when it was written." in done.stdout
    assert list(out.glob("*.parquet"))
    with lent(spark):
        same = here("simulate", "--policy", now, "--candidate", now, "--journal", journal, "--json")
    assert same.returncode == 0, same.stderr
    reported = json.loads(same.stdout)
    assert (reported["different"]["kinds"], reported["total"]["messages"], reported["lost"]) == (0, 90, 3)


def test_fail_on_chooses(spark: SparkSession, tmp_path: Path) -> None:
    now, new = policies(tmp_path)
    journal = written(tmp_path / "journal.jsonl", [row for row in JOURNAL if row.get("address") == "orders/a"])
    common = ("simulate", "--policy", now, "--candidate", new, "--journal", journal)
    with lent(spark):
        assert here(*common, "--fail-on", "denied").returncode == 0
        assert here(*common, "--fail-on", "denied", "--fail-on", "routed").returncode == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("what is this\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "v": 2}) + "\n", "the journal has rows of version 2"),
        (json.dumps({**JOURNAL[0], "action": "browse"}) + "\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "scope": None}) + "\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "to_ms": None}) + "\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "from_ms": -(10**17)}) + "\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "to_ms": 10**18}) + "\n", "1 record is no row of a journal"),
        (json.dumps({**JOURNAL[0], "messages": -1}) + "\n", "1 row has a count that no gateway writes"),
        (json.dumps({**JOURNAL[0], "outcomes": {"accepted": 2**53 + 1}}) + "\n", "1 row has a count that no gateway"),
        (3 * (json.dumps({**JOURNAL[0], "kind": "lost", "count": 2**62}) + "\n"), "3 rows have counts that no"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_journal(spark: SparkSession, tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "journal.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PipelineError, match=sentence):
        journal_checks.check(job.journal_rows(spark, [str(path)]), skip_bad=False)


def test_sums_that_spark_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    row = {**JOURNAL[0], "kind": "lost", "count": 2**53}
    journal, (now, _) = written(tmp_path / "journal.jsonl", 1025 * [row]), policies(tmp_path)
    with lent(spark):
        done = here("simulate", "--policy", now, "--candidate", now, "--journal", journal)
    assert done.returncode == 1
    assert "sums of the journal's counts exceed 2^63: select a shorter time" in done.stderr


def test_what_is_no_row_is_skipped_if_wanted(spark: SparkSession, tmp_path: Path) -> None:
    odd = [{**JOURNAL[0], **fields} for fields in ({"action": "browse"}, {"scope": None}, {"to_ms": 10**18})]
    journal, (now, new) = written(tmp_path / "journal.jsonl", [*JOURNAL, *odd]), policies(tmp_path)
    with lent(spark):
        done = here("simulate", "--policy", now, "--candidate", new, "--journal", journal, "--skip-bad", "--json")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["total"]["attached"] == 12


def test_corrupt_parquet_and_other_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(PipelineError, match="cannot be read as Parquet"):
        job.journal_rows(spark, [str(tmp_path / "broken.parquet")])
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR), "one sentence is enough"
    spark.range(3).write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(PipelineError, match="is not a journal"):
        job.journal_rows(spark, [str(tmp_path / "numbers")])
    with pytest.raises(PipelineError, match="not archived messages"):
        job.message_cases(spark.range(3), scope="edge", user="app", by="to")


def test_settings_of_spark_are_handed_on(tmp_path: Path) -> None:
    now, new = policies(tmp_path)
    common = ("simulate", "--policy", now, "--candidate", new, "--journal", written(tmp_path / "journal.jsonl"))
    small = ("--master", "local[2]", "--conf", "spark.driver.memory=512m", "--conf")
    done = command(*common, *small, "spark.serializer=nowhere.Serializer")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    *_, last = done.stderr.splitlines()
    said = "Spark did not start with master local[2]: ClassNotFoundException: nowhere.Serializer"
    assert last == f"pipeline simulate: {said}"
    wrong = here(*common, "--conf", "spark.driver.memory")
    assert (wrong.returncode, "--conf 'spark.driver.memory' is not KEY=VALUE" in wrong.stderr) == (2, True)


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, new = policies(tmp_path)
    journal = written(tmp_path / "journal.jsonl")
    common = ("simulate", "--policy", now, "--candidate", new, "--journal", journal)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = here(*common)
    assert (done.returncode, done.stdout) == (1, "")
    said = f"Spark needs Java 17 or later, and there is none in JAVA_HOME={tmp_path}: apt-get install "
    assert done.stderr.removeprefix("pipeline simulate: ").startswith(said)
    assert done.stderr.count("\n") == 1
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    done = here(*common)
    assert done.returncode == 1
    assert "is Java 8" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_pyspark(tmp_path: Path) -> None:
    now, new = policies(tmp_path)
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('none', name='pyspark')\n")
    journal = written(tmp_path / "journal.jsonl")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = command("simulate", "--policy", now, "--candidate", new, "--journal", journal, env={"PYTHONPATH": path})
    assert done.returncode == 1
    assert "pyspark is not installed: pip install 'scopegate[spark]'" in done.stderr
    shown = command("--help", env={"PYTHONPATH": path})
    assert (shown.returncode, "simulate" in shown.stdout) == (0, True)


def test_mistakes_on_the_command_line(tmp_path: Path) -> None:
    now, new = policies(tmp_path)
    assert here("simulate", "--policy", now, "--candidate", new).returncode == 2
    journal = written(tmp_path / "journal.jsonl")
    wrong = here("simulate", "--policy", now, "--candidate", new, "--journal", journal, "--since", "soon")
    assert wrong.returncode == 2
    assert "is not a time like" in wrong.stderr
    missing = here("simulate", "--policy", now, "--candidate", new, "--messages", journal, "--scope", "moon")
    assert missing.returncode == 1
    assert "--messages needs --scope" in missing.stderr
    new.write_text("scopes: {edge: {adresses: []}}")
    broken = here("simulate", "--policy", now, "--candidate", new, "--journal", journal)
    assert broken.returncode == 1
    assert "did you mean addresses" in broken.stderr

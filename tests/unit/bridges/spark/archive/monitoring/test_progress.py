"""What an archive job tells of itself: lines, JSON, and metrics."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from bridges.spark.archive.contents.ranges import LOST, Log, Range
from bridges.spark.archive.manifest.commits import Commit, File
from bridges.spark.archive.monitoring.metrics import ArchiveMetrics
from bridges.spark.archive.monitoring.progress import ArchiveProgress, MeteredOrigin, ProgressMeter
from bridges.spark.cli import progress as cli
from bridges.spark.cli.pipeline import pipeline
from tests.support.gateway.process import free_port

RANGES = Range("a", 0, 0, 400, 300, "id"), Range("b", 1, 5, 5, 0, "id")
COMMIT = Commit(7, "s", RANGES, (File("address=a/date=1970-01-01/x.parquet", 3 << 20, "", (), 0, 95_000),))


def measured(now: float = 147.0, high: int = 1_234_967) -> ArchiveProgress:
    times = iter([0.0, 10.0, 12.0])
    meter = ProgressMeter(lambda: next(times), lambda: now)

    class Origin:
        def source(self) -> Any:
            return "source"

        def identities(self, addresses: Collection[str]) -> dict[str, str | None]:
            return dict.fromkeys(addresses, "id")

        def holding(self, gaps: Sequence[Range]) -> Iterator[Range]:
            return iter(gaps)

        def logs(self) -> Iterator[Log]:
            yield Log("a", "id", {0: (0, high)})
            yield Log("b", "id", {1: (5, 5), 2: (0, 30)})

    metered = MeteredOrigin(Origin(), meter)
    assert (metered.source(), list(metered.holding(RANGES))) == ("source", list(RANGES))
    assert metered.identities(["a"]) == {"a": "id"}
    meter.begin()
    assert len(list(metered.logs())) == 2
    return meter.measured(COMMIT, {("a", 0): RANGES[0], ("b", 1): RANGES[1]})


def test_a_commit_is_measured() -> None:
    found = measured()
    assert found.behind == {("a", 0): 1_234_567, ("b", 1): 0, ("b", 2): 30}
    assert (found.seconds, found.rows_per_second, found.bytes, found.behind_events) == (2, 150, 3 << 20, 1_234_597)
    assert found.behind_seconds == 52


def test_lines_and_json_say_it() -> None:
    text = "commit 7: 300 events in 1 file, 3.0 MiB, 150/s, 1,234,597 behind (52 s)"
    assert cli.as_text(measured()) == text
    assert cli.as_text(measured(now=95 + 7200)).endswith("behind (2 h)")
    assert cli.as_json(measured()) == {
        "commit": 7, "rows": 300, "bytes": 3 << 20, "files": 1, "seconds": 2.0, "rows_per_second": 150.0,
        "behind_events": 1_234_597, "behind_seconds": 52.0, "unknown_mappings": 0, "lost_offsets": 0,
    }  # fmt: skip


@contextmanager
def output(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Iterator[tuple[StringIO, StringIO]]:
    streams = StringIO(), StringIO()
    streams[0].isatty = lambda: terminal  # type: ignore[method-assign]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", streams[0])
        patch.setattr("sys.stderr", streams[1])
        yield streams


def test_lost_offsets_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which `--no-fail-on-data-loss` has recorded: only `verify` told of them."""
    lost = replace(COMMIT, ranges=(Range("a", 3, 50, 70, gap_reason=LOST), *COMMIT.ranges))
    found = measured()._replace(commit=lost)
    assert cli.as_json(found)["lost_offsets"] == 20
    for as_json, said in (
        (False, "commit 7: a, partition 3: offsets 50 to 69 were lost before they were archived\n"), (True, "")
    ):
        with output(monkeypatch, terminal=False) as (_, err):
            cli.ArchiveReporter(as_json=as_json).committed(found)
        assert err.getvalue() == said


def test_a_terminal_has_one_line_that_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    with output(monkeypatch, terminal=True) as (out, err):
        reporter = cli.ArchiveReporter(as_json=False)
        reporter.committed(measured())
        reporter.committed(measured())
        reporter.outage("Kafka does not answer")
        reporter.close()
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().count("commit 7") == 2
    assert err.getvalue().endswith("Kafka does not answer\n")


def test_json_is_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    with output(monkeypatch, terminal=True) as (out, err):
        reporter = cli.ArchiveReporter(as_json=True)
        reporter.committed(measured())
        reporter.outage("Kafka does not answer")
        reporter.outage("the job goes on after 3 s")
        reporter.close()
    assert [json.loads(line)["commit"] for line in out.getvalue().splitlines()] == [7]
    assert [json.loads(line)["outage"] for line in err.getvalue().splitlines()] == [True, False]


def test_prometheus_reads_the_same() -> None:
    metrics, port = ArchiveMetrics(lambda: 170.0), free_port()
    metrics.serve("127.0.0.1", port)
    metrics.committed(measured())
    metrics.outage(lasts=True)
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for line in (
        'scopegate_archive_rows_total{address="a"} 300.0',
        "scopegate_archive_bytes_total 3.145728e+06",
        "scopegate_archive_commits_total 1.0",
        'scopegate_archive_behind_events{address="a",partition="0"} 1.234567e+06',
        "scopegate_archive_behind_seconds 52.0",
        "scopegate_archive_last_commit_seconds 2.0",
        "scopegate_archive_last_success_timestamp_seconds 170.0",
        "scopegate_archive_outages_total 1.0",
        "scopegate_archive_outage 1.0",
    ):
        assert line in lines
    metrics.outage(lasts=False)
    assert metrics.registry.get_sample_value("scopegate_archive_outage") == 0


def test_a_port_that_is_none_or_taken_is_said() -> None:
    run = CliRunner()
    said = run.invoke(pipeline, ["archive", "x", "--kafka", "k:1", "--topic", "t", "--metrics", "nonsense"])
    assert (said.exit_code, "'nonsense' is not a port, such as 9464 or 0.0.0.0:9464" in said.output) == (2, True)
    metrics, port = ArchiveMetrics(lambda: 0.0), free_port()
    metrics.serve("127.0.0.1", port)
    said = run.invoke(pipeline, ["archive", "x", "--kafka", "k:1", "--topic", "t", "--metrics", f"127.0.0.1:{port}"])
    assert said.exit_code == 1
    assert said.output.startswith(f"metrics cannot be served at 127.0.0.1:{port}: ")

"""`scopegate pipeline report`: tables with known answers from an archive made by hand, and the page in a browser."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.report.job import ReportRequest, make
from bridges.spark.report.page import tables
from bridges.spark.report.page.html import POLICY
from bridges.spark.simulate.job import journal_rows
from tests.support.browser.chromium import Proxy, chromium, measured
from tests.support.spark import archives
from tests.support.spark.metrics import SqlMetrics
from tests.support.spark.pipeline import here, lent
from tests.support.spark.report import HOSTILE, START, events, journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PHONE, DESKTOP = 390, 1440


@dataclass
class RenderedReport:
    """A report: its page, and its tables as rows."""

    archive: Archive
    page: Path
    folder: Path
    files_read: int = 0
    rows_read: int = 0

    def rows(self, name: str, **fields: object) -> list[dict[str, Any]]:
        """The rows of a table that have these fields."""
        found = pq.read_table(self.folder / f"{name}.parquet").to_pylist()
        return [row for row in found if all(row[key] == value for key, value in fields.items())]

    def total(self, name: str, column: str, **fields: object) -> int:
        """A column added up."""
        return sum(row[column] or 0 for row in self.rows(name, **fields))


ALL = ReportRequest()


def made(spark: SparkSession, archive: Archive, folder: Path, request: ReportRequest = ALL) -> RenderedReport:
    (folder / "tables").mkdir(parents=True)
    page = folder / "report.html"
    page.write_text(make(spark, archive, request, folder / "tables"))
    return RenderedReport(archive, page, folder / "tables")


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RenderedReport:
    """The report of the traffic of `tests/support/spark/report.py`."""
    folder = tmp_path_factory.mktemp("report")
    logs = {"orders": events(), "scopegate.journal": archives.journal(journal())}
    archive, seen = archives.written(folder / "archive", logs), SqlMetrics(spark)
    report = made(spark, archive, folder / "out")
    files, rows = seen.total("number of files read"), seen.total("number of output rows", "Scan parquet")
    return replace(report, files_read=files, rows_read=rows)


def test_what_flowed(report: RenderedReport) -> None:
    (orders,) = report.rows("archive_addresses")
    assert (orders["address"], orders["events"], orders["partitions"], orders["keys"]) == ("orders", 600, 2, 8)
    assert orders["bytes_p50"] < orders["bytes_max"] * 1.1
    assert report.total("archive_traffic", "events") == 600
    assert report.total("archive_traffic", "bytes") == orders["bytes"] > 600 * 100
    assert {(row["partition"]) for row in report.rows("archive_traffic")} == {0, 1}
    heaviest = report.rows("archive_keys", rank=1)
    assert [(row["key"], row["events"], row["share"]) for row in heaviest] == [(b"k0", 300, 0.5)]
    assert [row["rank"] for row in report.rows("archive_keys")] == list(range(1, 9))


def test_who_asked_and_what_became_of_it(report: RenderedReport) -> None:
    assert report.total("scopes", "messages", scope="edge", action="send") == 30 * 20 + 4  # not twice
    assert report.total("scopes", "messages", scope="edge", action="receive") == 30 * 22
    assert report.total("scopes", "denied") == 3
    (denied,) = report.rows("links", decision="deny")
    assert (denied["address"], denied["condition"], denied["denied"]) == (HOSTILE, "amqp:not-found", 3)
    (group,) = report.rows("links", group="billing")
    assert (group["messages"], group["accepted"], group["released"]) == (600, 570, 30)
    outcomes = {(row["action"], row["outcome"], row["group"]): row["messages"] for row in report.rows("outcomes")}
    assert outcomes[("receive", "released", "billing")] == 30
    assert report.total("outcomes", "messages", outcome="refused: amqp:not-found") == 1
    (crossing,) = report.rows("crossings")
    assert (crossing["to_scope"], crossing["result"], crossing["messages"]) == ("core", "annotated", 7)
    assert report.rows("lost") == [{"cause": "buffer", "rows": 3}]


def test_filters_latency_and_lag(report: RenderedReport) -> None:
    selectivity = {row["user"]: (row["scanned"], row["matched"], row["selectivity"]) for row in report.rows("filters")}
    assert selectivity == {"billing": (600, 600, 1.0), "audit": (600, 60, 0.1)}
    latency = {row["user"]: row for row in report.rows("latency")}
    billing, audit = latency["billing"], latency["audit"]
    assert (billing["events"], billing["p50_ms"], billing["p99_ms"], billing["slowest_ms"]) == (600, 1, 4, 4)
    assert (audit["events"], audit["older"], audit["p50_ms"], audit["slowest_ms"]) == (30, 30, 900, 900)
    assert [(each["upto_ms"], each["events"]) for each in billing["classes"]] == [(1, 300), (5, 300)]
    lag = [row["lag"] for row in report.rows("lag", user="audit")]
    assert (lag[0], lag[-1], sorted(lag)) == (0, 29, lag)
    assert {row["lag"] for row in report.rows("lag", user="billing")} == {0}


def test_the_archive_is_read_once(report: RenderedReport) -> None:
    """Each file is opened by one scan, and the tables are made of what it found."""
    there = len(list(report.archive.path.glob("address=*/date=*/*.parquet")))
    assert report.files_read == there == 2
    assert report.rows_read == 600 + len(journal())


BEGIN = datetime.fromtimestamp(START / 1000, UTC)


@pytest.fixture(scope="module")
def chosen(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RenderedReport:
    """What the command reports of the red events of the second hundred seconds, with keys and a journal elsewhere."""
    folder = tmp_path_factory.mktemp("chosen")
    logs = {"orders": events(), "ops/journal": archives.journal(journal())}
    archive, out = archives.written(folder / "archive", logs), folder / "out"
    times = "--since", BEGIN + timedelta(seconds=100), "--until", BEGIN + timedelta(seconds=200)
    words = "--show-keys", "--journal", "ops/journal", "--filter", "a.color = 'red'", *times
    with lent(spark):
        done = here("report", archive.path, "--out", out, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(out / "report.html")
    assert not list(folder.glob(".out*"))
    return RenderedReport(archive, out / "report.html", out / "tables")


def test_the_command_writes_the_same_tables(report: RenderedReport, chosen: RenderedReport) -> None:
    compared = {"scopes_before"}
    assert {path.stem for path in chosen.folder.iterdir()} == {path.stem for path in report.folder.iterdir()} | compared
    assert "orders: k0" in chosen.page.read_text()
    assert "orders: k0" not in report.page.read_text()


def test_filter_and_time_and_the_period_before(
    spark: SparkSession, report: RenderedReport, chosen: RenderedReport, tmp_path: Path
) -> None:
    """Of the second hundred seconds, where every tenth event is red as in the first."""
    (orders,) = chosen.rows("archive_addresses")
    assert (orders["events"], orders["events_before"]) == (10, 10)
    assert orders["bytes_before"] == pytest.approx(orders["bytes"], rel=0.01)
    assert chosen.total("archive_traffic", "events") == 10
    assert 10 * 20 <= chosen.total("scopes", "messages", action="send") <= 12 * 20  # rows of ten seconds
    assert 9 * 20 <= chosen.total("scopes_before", "messages", action="send") <= 10 * 20
    text = chosen.page.read_text()
    assert "a.color = &#x27;red&#x27;" in text
    assert "2026-11-21 12:00:00 UTC to 2026-11-21 12:01:40 UTC" in text
    assert "unchanged; before: 10" in text
    assert "before:" not in report.page.read_text()
    with pytest.raises(PipelineError, match=r"the archive has no address nowhere \(it has: orders\)"):
        make(spark, report.archive, ReportRequest(ArchiveSelection(("nowhere",))), tmp_path)


def test_the_files_of_the_archive(report: RenderedReport) -> None:
    (orders,) = report.rows("archive_files", address="orders")
    assert (orders["files"], orders["small_files"], orders["events"], orders["lost_offsets"]) == (1, 1, 600, 0)
    (file,) = (report.archive.path / "address=orders").glob("*/*.parquet")
    assert orders["bytes"] == file.stat().st_size
    assert orders["behind"] == 600 - 300  # the last end of partition 0 that a reader saw


def test_nothing_of_python_in_what_it_asks(spark: SparkSession, report: RenderedReport) -> None:
    found = tables.events(read_archive(spark, report.archive, ArchiveSelection(filter="a.color = 'red'")))
    for name, frame in tables.archive_tables(found, 10).items():
        assert "Python" not in frame._jdf.queryExecution().toString(), name


def test_rows_about_pushed_events_can_be_read(spark: SparkSession, report: RenderedReport) -> None:
    rows = journal_rows(spark, [str(report.archive.path)]).where("kind = 'push'")
    (row,) = rows.selectExpr("user", "sink", "streams[0]", "subscriptions", "events['delivered']").collect()
    assert tuple(row) == ("app", "https://sink.example:443", "events/orders", 2, 7)


def test_the_journal_may_have_any_address(chosen: RenderedReport) -> None:
    """One that was archived over AMQP is called like the node it came from."""
    assert chosen.total("links", "messages", group="billing") >= 10 * 20
    assert {row["address"] for row in chosen.rows("archive_addresses")} == {"orders"}


def test_without_a_journal_the_page_says_how_to_have_one(spark: SparkSession, tmp_path: Path) -> None:
    found = made(spark, archives.written(tmp_path / "archive", {"orders": events()}), tmp_path / "out")
    text = found.page.read_text()
    assert "There is no journal in what this report was made of" in text
    assert "Most frequent keys" in text
    empty = ReportRequest(ArchiveSelection(filter="a.color = 'green'"))
    nothing = made(spark, found.archive, tmp_path / "nothing", empty)
    assert "No archived event was selected." in nothing.page.read_text()


# -- the page


def test_the_page_is_one_file_without_scripts_or_places_elsewhere(report: RenderedReport) -> None:
    text = report.page.read_text()
    assert POLICY in text.replace("&#x27;", "'")
    assert "<script" not in text
    places = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert places <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of XML, not places
    assert not re.search(r"@import|url\((?!#)", text)
    assert set(re.findall(r'(?:src|href)="(?!#|data:)', text)) == set()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def phone(report: RenderedReport) -> Iterator[Any]:
    """The page as a phone shows it, and what it asked of the network."""
    proxy = Proxy()
    found = measured(report.page, PHONE, proxy=proxy)
    yield {**found, "requests": list(proxy.requests)}
    proxy.close()


def test_a_phone_shows_all_of_it(phone: Any) -> None:
    assert phone["width"] == PHONE
    assert phone["scroll"] <= PHONE
    assert phone["right"] <= PHONE + 0.5
    labels = " ".join(plot["label"] for plot in phone["plots"])
    for reported in (
        "Events over time", "Bytes over time", "Events by partition", "Events by key", "Messages by scope",
        "By address", "Outcomes by address", "By group or user", "Share of events", "Latency: ", "Lag over time",
    ):  # fmt: skip
        assert reported in labels
    for plot in phone["plots"]:
        assert plot["width"] > PHONE * 0.8, plot["label"]
        assert plot["height"] > 60, plot["label"]
        assert plot["smallest"] >= 11, plot["label"]
        assert plot["outside"] == [], plot["label"]
        assert plot["marks"] > 5, plot["label"]
    assert all(rows >= 2 for rows in phone["tables"])
    assert phone["text"].count("billing at events/orders") >= 3
    assert "The journal is not whole: rows were lost when it was written (3 buffer)." in phone["text"]


def test_a_phone_leaves_no_cell_of_a_table_alone_beside_a_gap(phone: Any) -> None:
    """Numbers are in pairs; one without another is as wide as the row."""
    assert len(phone["rows"]) >= 8
    for cells in phone["rows"]:
        left, right = min(cell[0] for cell in cells), max(cell[2] for cell in cells)
        lines = Counter(round(cell[1]) for cell in cells)
        alone = [cell for cell in cells if lines[round(cell[1])] == 1]
        assert all((cell[0], cell[2]) == (left, right) for cell in alone)


def test_a_desktop_has_no_holes_and_no_orphans(report: RenderedReport) -> None:
    desktop = measured(report.page, DESKTOP)
    assert desktop["scroll"] <= DESKTOP
    rows = [top for _, top, _, _ in desktop["tiles"]]
    assert {rows.count(top) for top in rows} == {len(rows) / len(set(rows))}  # every row of tiles is full
    for plot in desktop["plots"]:
        assert 13 <= plot["smallest"] <= plot["largest"] <= 17.5, plot["label"]
        assert plot["outside"] == [], plot["label"]
    columns: dict[int, list[Any]] = {}
    for card in desktop["cards"]:
        columns.setdefault(round(card[0]), []).append(card)
    assert len(columns) == 3
    for cards in columns.values():
        gaps = [round(below[1] - above[3]) for above, below in pairwise(cards)]
        assert all(gap == 12 or gap > 80 for gap in gaps), gaps  # a chapter's heading, else the next card


def test_refusals_come_first(phone: Any) -> None:
    text = phone["text"]
    assert text.index("Links refused") < text.index("Archived events")
    assert text.index("What was refused, and why") < text.index("What flowed", text.index("What was refused"))
    assert "Links: 3 amqp:not-found. Messages: 1 amqp:not-found." in text
    for machinery in ("$info", "delivery-annotations-filter", "amqp:sql-filter"):
        assert machinery not in text


def test_what_clients_chose_is_text(phone: Any) -> None:
    assert HOSTILE in phone["text"]
    assert phone["scripts"] == 0


def test_it_asks_the_network_for_nothing(phone: Any, report: RenderedReport) -> None:
    assert [request for request in phone["requests"] if not Proxy.OWN.search(request)] == []
    proxy = Proxy()
    host, _, port = proxy.place.partition(":")
    with socket.create_connection((host, int(port))):
        pass  # a browser opens connections that it ends without a request
    other = report.page.with_name("other.html")
    other.write_text('<img src="http://pictures.test/one.png">')
    chromium(other, "--dump-dom", proxy=proxy)  # so would a request be seen
    assert any(b"pictures.test" in request for request in proxy.requests)
    assert all(proxy.requests), "what was not asked is no request"
    proxy.close()


def test_dark_and_light(phone: Any, report: RenderedReport) -> None:
    dark = measured(report.page, PHONE, "--blink-settings=preferredColorScheme=0")
    assert phone["background"] == "rgb(255, 255, 255)"
    assert dark["background"] != phone["background"]
    assert dark["ink"] != phone["ink"]
    for plot, other in zip(phone["plots"], dark["plots"], strict=True):
        assert set(plot["colours"]).isdisjoint(other["colours"]), plot["label"]


# -- the command


def test_mistakes_are_one_sentence_each(report: RenderedReport, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    cases = (
        (tmp_path / "nowhere", tmp_path / "out", 1, "is not an archive"),
        (report.archive.path, tmp_path, 1, "exists and is not a report"),
        (report.archive.path, tmp_path / "no" / "out", 1, "there is no folder"),
    )
    for archive, out, code, sentence in cases:
        done = here("report", archive, "--out", out)
        assert done.returncode == code, done.stderr
        assert (sentence in done.stderr, "Traceback" in done.stderr) == (True, False), done.stderr
    wrong = here("report", report.archive.path, "--out", tmp_path / "out", "--since", "soon")
    assert (wrong.returncode, "is not a time like" in wrong.stderr) == (2, True)


def test_a_file_of_the_archive_that_is_broken(spark: SparkSession, tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders": events()})
    (file,) = (tmp_path / "archive").glob("address=*/date=*/*.parquet")
    file.unlink()
    with pytest.raises(PipelineError, match="is missing, the manifest has it"):
        make(spark, archive, replace(ReportRequest(), keys=True), tmp_path)

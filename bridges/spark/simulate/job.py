"""The simulation as a Spark job: the driver evaluates each distinct case once and joins the verdicts to the rows.

Even a long journal has few kinds of links. So Spark counts the cases, and Python evaluates them: no row passes through
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from bridges.spark.archive.contents.dates import dates_of
from bridges.spark.archive.read import ArchiveSelection, read_archive, selected
from bridges.spark.archive.storage.paths import storage_path
from bridges.spark.archive.store import MANIFEST, Archive
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.simulate.journal_checks import BAD
from bridges.spark.simulate.policy_diff import (
    Case,
    CaseReceiver,
    KnownReceivers,
    PolicyDifference,
    PolicyEvaluator,
    compare,
)
from gateway.config.policy import make_filter_rules
from gateway.plural import counted
from policies.rules import CompiledPolicy
from policies.values.folders import archive_problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

MOST: Final = 200_000
"""Maximum number of cases that the driver evaluates."""
JOURNAL: Final = "scopegate.journal"
"""The default address of the journal in an archive."""
_KEYS: Final = Case._fields
ALL: Final = ArchiveSelection()
_SPECIAL: Final = ("temporary", "anonymous", "replies", "pair")
_OWN: Final = r"^(\$temp/|\$replies\.[^/]+/).+"
"""Prefixes of addresses of single clients, which no policy names."""
SCHEMA: Final = (
    "v int, kind string, gateway string, process string, seq bigint, from_ms bigint, to_ms bigint, scope string, "
    "user string, action string, address string, decision string, condition string, refused_by string, route string, "
    "rule string, replies string, to_scope string, to_address string, to_connector string, to_cluster string, "
    "to_topic string, filters array<string>, filter_set string, attached bigint, messages bigint, bytes bigint, "
    "outcomes map<string,bigint>, refused map<string,bigint>, announced boolean, believed boolean, result string, "
    "why string, size bigint, settled boolean, annotated boolean, message_to string, message_reply_to string, "
    "malformed string, count bigint, causes map<string,bigint>, `group` string, links bigint, scanned bigint, "
    "matched bigint, older bigint, latency map<string,bigint>, slowest_ms bigint, "
    "partitions array<struct<`partition`:int,`position`:bigint,`end`:bigint>>, manager string, protocol string, "
    "sink string, streams array<string>, subscriptions bigint, events map<string,bigint>"
)
"""A row of any kind (docs/journal.md)."""


class CaseCount(NamedTuple):
    """A case with its verdicts, and its counts: attached links, their messages and bytes, and single messages."""

    finding: PolicyDifference
    attached: int
    messages: int
    bytes: int
    samples: int
    decided: str | None
    """The gateway's own decision, if the journal recorded it."""


class SimulationOutcome(NamedTuple):
    """The result of a simulation."""

    findings: list[CaseCount]
    lost: int
    """Number of rows that the gateway reports as lost."""
    span: tuple[int, int] | None
    """Milliseconds since 1970 of the first and last row."""

    def changed(self) -> list[CaseCount]:
        """The cases with a difference, sorted by number of messages, largest first."""
        different = [each for each in self.findings if each.finding.differences]

        def heavy(each: CaseCount) -> tuple[int, int, int, str]:
            return -each.messages, -each.samples, -each.attached, str(each.finding.case)

        return sorted(different, key=heavy)

    def surprises(self) -> int:
        """Number of links for which the current policy and the journal differ: another policy was in force."""
        return sum(
            each.attached for each in self.findings
            if each.decided is not None and each.decided != each.finding.before.decision
        )  # fmt: skip


# -- reading


def journal_rows(spark: SparkSession, paths: Sequence[str], since: datetime | None = None) -> DataFrame:
    """Rows of journals: JSON lines, Parquet of rows, or Parquet of a topic (values in `value` or `body`).

    In archives, files from before `since` are not opened; `between` selects the rows. There is no upper bound, since a
    gateway may write a row long after the period that the row covers.
    """
    return reduce(lambda one, other: one.unionByName(other), (_rows(spark, path, since) for path in paths))


def _rows(spark: SparkSession, path: str, since: datetime | None) -> DataFrame:
    from pyspark.sql import functions as F

    written = ArchiveSelection(since_date=dates_of(since, None).first)
    if (found := archived(spark, path, JOURNAL, written)) is not None:
        return _parsed(found, F.col("body").cast("string"))
    if not _is_parquet(path):
        try:
            texts = spark.read.text(path)
        except Exception as error:
            raise PipelineError(f"{path} cannot be read: {sentence(error)}") from error
        return _parsed(texts.where(F.trim("value") != ""), F.col("value"))
    frame = parquet(spark, path)
    for name in ("body", "value"):
        if name in frame.columns and "kind" not in frame.columns:
            return _parsed(frame, F.col(name).cast("string"))
    if not {"kind", "scope", "v"} <= set(frame.columns):
        raise PipelineError(
            f"{path} is not a journal: it has neither the columns of its rows (docs/journal.md) nor a column body or "
            "value; archived messages are given with --messages"
        )
    wanted = _struct(SCHEMA).fields
    shaped = [
        (F.col(field.name) if field.name in frame.columns else F.lit(None)).cast(field.dataType).alias(field.name)
        for field in wanted
    ]
    return frame.select(*shaped, F.lit(None).cast("string").alias(BAD))


def _struct(ddl: str) -> StructType:
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def _parsed(frame: DataFrame, text: Column) -> DataFrame:
    from pyspark.sql import functions as F

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
    return frame.select(F.from_json(text, f"{SCHEMA}, {BAD} string", options).alias("row")).select("row.*")


def archived(
    spark: SparkSession, path: str, address: str | None = None, selection: ArchiveSelection = ALL
) -> DataFrame | None:
    """The committed rows of an archive, or of one address if `path` ends with `address=…`; `None` if it is no archive.

    `address` selects one address of a whole archive, and `selection` its rows. Raises `PipelineError` for a URL that
    is not an archive's.
    """
    if (problem := archive_problem(path)) is not None:
        raise PipelineError(problem)
    place = storage_path(path)
    if place.name.startswith("address=") and (place.parent / MANIFEST).is_dir():
        place, address = place.parent, unquote(place.name.removeprefix("address="))
    if not (place / MANIFEST).is_dir():
        if isinstance(place, Path):
            return None
        raise PipelineError(f"{place} is not an archive: it has no {MANIFEST}")
    archive = Archive(place)
    there = {file.address for _, file in archive.readable().live_files()}
    if address is not None and address not in there:
        known = ", ".join(sorted(there)) or "none"
        raise PipelineError(f"{place} has no address {address} (it has: {known}); name one as {place}/address=…")
    return read_archive(spark, archive, replace(selection, addresses=() if address is None else (address,)))


def messages(spark: SparkSession, path: str, selection: ArchiveSelection = ALL) -> DataFrame:
    """Selected messages of an archive or of Parquet files. Raises `PipelineError`."""
    if (found := archived(spark, path, selection=selection)) is not None:
        return found
    frame = parquet(spark, path)
    if (selection.since or selection.until) and "timestamp" not in frame.columns:
        raise PipelineError(f"{path} has no column timestamp: leave --since and --until out")
    return selected(frame, selection)


def _is_parquet(path: str) -> bool:
    place = Path(path)
    if place.is_dir():
        return any(place.rglob("*.parquet"))
    return place.suffix == ".parquet" or "*.parquet" in path


def parquet(spark: SparkSession, path: str) -> DataFrame:
    """A Parquet folder or file. Raises `PipelineError` if it cannot be read."""
    try:
        return spark.read.parquet(path)
    except Exception as error:
        raise PipelineError(f"{path} cannot be read as Parquet: {sentence(error)}") from error


# -- cases


def journal_cases(rows: DataFrame) -> DataFrame:
    """The rows about links and messages, with the columns of `Case`."""
    from pyspark.sql import functions as F

    special = F.when(F.col("route").isin(*_SPECIAL), F.col("route")).otherwise("")
    reply_to = F.when(F.col("kind") == "message", F.col("message_reply_to"))
    known = rows.where(F.col("kind").isin("link", "message") & F.col("scope").isNotNull())
    return known.withColumns(
        {
            "route": special,
            "reply_to": reply_to,
            # The policy allowed these links; a node refused them.
            "decision": F.when(F.col("refused_by").isNull() | (F.col("refused_by") != "node"), F.col("decision")),
            "filters": F.coalesce("filters", F.array().cast("array<string>")),
            "samples": F.when(F.col("kind") == "message", 1).otherwise(0),
        }
    )


def message_cases(frame: DataFrame, *, scope: str, user: str, by: str) -> DataFrame:
    """Archived messages as cases: sent by `user` in `scope` to the `address` column, or (`by` to) to their own `to`."""
    from pyspark.sql import functions as F

    column = "properties.to" if by == "to" else "address"
    if "properties" not in frame.columns or (by == "address" and "address" not in frame.columns):
        raise PipelineError("these are not archived messages: they lack the columns of docs/columns.md")
    null = F.lit(None)
    return frame.select(
        F.lit(scope).alias("scope"), F.lit(user).alias("user"), F.lit("send").alias("action"),
        F.col(column).cast("string").alias("address"), F.lit("").alias("route"),
        F.array().cast("array<string>").alias("filters"), null.cast("string").alias("filter_set"),
        F.regexp_replace("properties.reply_to", _OWN, "$1…").alias("reply_to"), null.cast("string").alias("decision"),
        F.lit("message").alias("kind"), null.cast("bigint").alias("attached"), null.cast("bigint").alias("messages"),
        null.cast("bigint").alias("bytes"), F.lit(1).alias("samples"), null.cast("bigint").alias("from_ms"),
        null.cast("bigint").alias("to_ms"),
    ).where(F.col("address").isNotNull())  # fmt: skip


def known_of(rows: DataFrame) -> KnownReceivers:
    """The known properties of receivers, from crossing rows."""
    from pyspark.sql import functions as F

    seen = rows.where(F.col("kind") == "crossing").select(
        "to_scope", "to_address", "to_connector", "announced", "believed"
    )
    announced: dict[CaseReceiver, set[bool]] = {}
    believed: dict[CaseReceiver, set[bool]] = {}
    for row in _few(seen.distinct(), "receivers"):
        receiver = CaseReceiver(row["to_scope"], row["to_address"], row["to_connector"])
        for table, name in ((announced, "announced"), (believed, "believed")):
            if row[name] is not None:
                table.setdefault(receiver, set()).add(row[name])
    tables = ({key: frozenset(values) for key, values in table.items()} for table in (announced, believed))
    return KnownReceivers(*tables)


def _few(frame: DataFrame, what: str) -> list[Row]:
    found = frame.limit(MOST + 1).collect()
    if len(found) > MOST:
        advice = "simulate a shorter time (--since, --until)"
        raise PipelineError(f"there are more than {MOST:,} different {what}; {advice}")
    return found


# -- the job


def simulate(
    cases: DataFrame, now: CompiledPolicy, candidate: CompiledPolicy, known: KnownReceivers,
    on_progress: Callable[[str], None] = lambda _: None,
) -> SimulationOutcome:  # fmt: skip
    """Evaluate every case under both policies; `on_progress` is called with messages."""
    from pyspark.sql import functions as F

    names = ("attached", "messages", "bytes", "samples")
    own = F.col("kind") == "link"
    sums = [F.sum(F.when(own, F.col(name))).alias(name) for name in names[:3]]
    grouped = cases.groupBy(*_KEYS, "decision").agg(
        *sums, F.sum("samples").alias("samples"), F.min("from_ms").alias("first"), F.max("to_ms").alias("last")
    )
    groups = _few(grouped, "kinds of links and messages")
    on_progress(f"{counted(len(groups), 'kind')} of links and messages; evaluating each under both policies")
    before, after = (PolicyEvaluator(each, make_filter_rules(each.model.filters), known) for each in (now, candidate))
    findings = compare(before, after, (_case(row) for row in groups))
    weighed = [
        CaseCount(finding, *_weights(row), decided=row["decision"])
        for finding, row in zip(findings, groups, strict=True)
    ]
    times = [(row["first"], row["last"]) for row in groups if row["first"] is not None]
    span = (min(first for first, _ in times), max(last for _, last in times)) if times else None
    return SimulationOutcome(weighed, 0, span)


def _weights(row: Row) -> tuple[int, int, int, int]:
    return int(row["attached"] or 0), int(row["messages"] or 0), int(row["bytes"] or 0), int(row["samples"] or 0)


def _case(row: Row) -> Case:
    fields = {name: row[name] for name in _KEYS}
    return Case(**{**fields, "filters": tuple(fields["filters"] or ())})


def annotated_rows(cases: DataFrame, outcome: SimulationOutcome) -> DataFrame:
    """The rows with the verdicts of both policies: columns `before`, `after` and `differences`."""
    import pyarrow as pa
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    keys = {f"case_{name}": cases.schema[name].dataType.simpleString() for name in _KEYS}
    columns = ", ".join(f"{name} {kind}" for name, kind in keys.items())
    schema = _struct(f"{columns}, before string, after string, differences array<string>")
    values = [
        dict(zip(schema.names, (*case, before, after, words), strict=True))
        for case, before, after, words in dict.fromkeys(_verdicts(outcome))
    ]
    table = pa.Table.from_pylist(values, to_arrow_schema(schema))  # rows of a list would pass through Python workers
    verdicts = cases.sparkSession.createDataFrame(table, schema)
    same = reduce(lambda one, other: one & other, (F.col(name).eqNullSafe(F.col(f"case_{name}")) for name in _KEYS))
    return cases.join(F.broadcast(verdicts), same).drop(*keys)


def _verdicts(outcome: SimulationOutcome) -> Iterator[tuple[Case, str, str, tuple[str, ...]]]:
    for each in outcome.findings:
        case, before, after, words = each.finding
        yield case, str(before), str(after), words

"""The report's tables: sums over an archive and a journal, computed by Spark's own functions (docs/pipeline.md).

Every table is small: time is divided into at most `BUCKETS` buckets, and tables are cut off after the `MOST` largest
rows. No row passes through Python. `current` is true in rows of the report's own period, not the previous
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

from policies.rules import INFO_SUFFIX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

BUCKETS: Final = 120
MOST: Final = 100_000
"""Maximum number of rows of a table."""
KEYS: Final = 20
"""Number of keys of an address that are listed."""
_STEPS: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000)
_OUTCOMES: Final = ("accepted", "released", "rejected", "modified", "settled", "dropped")
MORE: Final = 1 << 62
"""The upper bound of the last class of latency."""
_LINK: Final = (
    "scope", "user", "action", "address", "group", "route", "to_scope", "to_address", "to_connector", "to_cluster",
    "to_topic", "decision", "condition", "refused_by",
)  # fmt: skip
_READER: Final = ("scope", "user", "address", "group", "to_cluster", "to_topic")


def width(seconds: float, least: float = 0) -> int:
    """The seconds of a time bucket, for at most `BUCKETS` of them, and not below `least`."""
    fits = (step for step in _STEPS if seconds / step < BUCKETS and step >= least)
    return next(fits, max(int(seconds // BUCKETS) + 1, int(least)))


def interval(journal: DataFrame | None) -> float:
    """The typical period of a journal row in seconds; shorter time buckets would have gaps."""
    from pyspark.sql import functions as F

    usual = F.percentile_approx(F.col("to_ms") - F.col("from_ms"), 0.5)
    found = None if journal is None else journal.where("current").agg(usual).first()
    return 0.0 if found is None or found[0] is None else found[0] / 1e3


def span(archive: DataFrame | None, journal: DataFrame | None) -> tuple[float, float] | None:
    """The first and last time in archive and journal, in seconds since 1970; `None` if both are empty."""
    from pyspark.sql import functions as F

    found: list[Row] = []
    if archive is not None:
        moment = F.unix_micros("timestamp") / 1e6
        found += archive.where("current").agg(F.min(moment), F.max(moment)).collect()
    if journal is not None:
        found += journal.where("current").agg(F.min("from_ms") / 1e3, F.max("to_ms") / 1e3).collect()
    known = [row for row in found if row[0] is not None]
    return (min(row[0] for row in known), max(row[1] for row in known)) if known else None


# -- the archive


def events(archive: DataFrame, since: datetime | None = None) -> DataFrame:
    """The columns of an event that the tables need; events from `since` on are `current`."""
    from pyspark.sql import functions as F

    size = F.coalesce(F.length("head") + F.length("bare_message"), _record_size())
    current = F.lit(True) if since is None else F.col("timestamp") >= F.lit(since)
    return archive.select(
        "address", "partition", "offset", "timestamp", "key", size.alias("size"), current.alias("current")
    )


def _record_size() -> Column:
    """The bytes of a Kafka record: its key, value and headers."""
    from pyspark.sql import functions as F

    def length(of: Column | str) -> Column:
        return F.coalesce(F.length(of), F.lit(0))

    value = F.when(F.col("record.value_in_body"), length("body")).otherwise(length("record.value"))
    headers = F.aggregate(
        F.coalesce(F.col("record.headers"), F.array()), F.lit(0),
        lambda sum, each: sum + length(each["key"]) + length(each["value"]),
    )  # fmt: skip
    return length("key") + value + headers


def archive_tables(found: DataFrame, seconds: int) -> dict[str, DataFrame]:
    """Traffic over time, by address and by key; `found` is the result of `events`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    count, size = F.count("*").alias("events"), F.sum("size").alias("bytes")
    time = _bucket(F.unix_micros("timestamp") / 1e6, seconds)
    current = found.where("current")
    traffic = current.groupBy(time.alias("time"), "address", "partition").agg(
        count, size, F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset")
    )
    whole = Window.partitionBy("address")
    keyed = current.where(F.col("key").isNotNull()).groupBy("address", "key").agg(count, size)
    keys = keyed.withColumns(
        {
            "rank": F.row_number().over(whole.orderBy(F.desc("events"), "key")),
            "share": F.col("events") / F.sum("events").over(whole),
        }
    ).where(F.col("rank") <= KEYS)
    addresses = found.groupBy("address").agg(*_by_address()).orderBy(F.desc("events"), "address")
    return {
        "archive_traffic": _ordered(traffic, "time", "address", "partition"),
        "archive_addresses": addresses,
        "archive_keys": keys.orderBy("address", "rank"),
    }


def _by_address() -> list[Column]:
    from pyspark.sql import functions as F

    def current(name: str) -> Column:
        return F.when(F.col("current"), F.col(name))

    before = F.when(~F.col("current"), F.col("size"))
    half, most = (F.percentile_approx(current("size"), share) for share in (0.5, 0.99))
    return [
        F.count_if("current").alias("events"),
        F.coalesce(F.sum(current("size")), F.lit(0)).alias("bytes"),
        half.alias("bytes_p50"), most.alias("bytes_p99"), F.max(current("size")).alias("bytes_max"),
        F.countDistinct(current("partition")).alias("partitions"),
        F.approx_count_distinct(current("key")).alias("keys"),
        F.count_if(F.col("current") & F.col("key").isNull()).alias("without_key"),
        F.min(current("timestamp")).alias("first"), F.max(current("timestamp")).alias("last"),
        F.count_if(~F.col("current")).alias("events_before"),
        F.coalesce(F.sum(before), F.lit(0)).alias("bytes_before"),
    ]  # fmt: skip


# -- the journal


def current_rows(rows: DataFrame, since: datetime | None) -> DataFrame:
    """Rows of a journal, of which those that end at `since` or later are `current`."""
    from pyspark.sql import functions as F

    since_ms = None if since is None else int(since.timestamp() * 1000)
    untimed = F.col("to_ms").isNull()
    return rows.withColumn("current", F.lit(True) if since_ms is None else untimed | (F.col("to_ms") >= since_ms))


def journal_tables(found: DataFrame, seconds: int) -> dict[str, DataFrame]:
    """Links, outcomes and readers; `found` is the result of `current_rows`."""
    from pyspark.sql import functions as F

    info = F.coalesce(F.col("address").endswith(INFO_SUFFIX), F.lit(False)) & (F.col("decision") == "allow")
    named = (F.col("kind") == "link") & ~F.coalesce(info, F.lit(False))  # clients read $info before they read events
    rows = found.where("current")
    links, reads = rows.where(named), rows.where(F.col("kind") == "reading")
    earlier = found.where(~F.col("current")).where(named)
    time = _bucket(F.col("to_ms") / 1e3, seconds).alias("time")
    return {
        "scopes": _ordered(links.groupBy(time, "scope", "action").agg(*_traffic()), "time", "scope", "action"),
        "scopes_before": _ordered(earlier.groupBy("scope", "action").agg(*_traffic()), "scope", "action"),
        "links": links.groupBy(*_LINK).agg(*_traffic(), *_ends()).orderBy(F.desc("messages"), F.desc("attached")),
        "outcomes": _outcomes(links),
        "crossings": _crossings(rows.where(F.col("kind") == "crossing")),
        "filters": _filters(reads),
        "latency": _latency(reads),
        "lag": _lag(reads, time),
        "lost": rows.select(F.explode("causes").alias("cause", "lost"))
        .groupBy("cause")
        .agg(F.sum("lost").alias("rows")),
    }


def _traffic() -> list[Column]:
    """Sums over links; messages of anonymous links are left out, since they are counted at their addresses."""
    from pyspark.sql import functions as F

    named = F.col("route").isNull() | (F.col("route") != "anonymous")
    denied = F.col("decision") == "deny"
    return [
        F.sum(F.when(~denied, F.col("attached")).otherwise(0)).alias("attached"),
        F.sum(F.when(denied, F.col("attached")).otherwise(0)).alias("denied"),
        F.sum(F.when(named, F.col("messages")).otherwise(0)).alias("messages"),
        F.sum(F.when(named, F.col("bytes")).otherwise(0)).alias("bytes"),
    ]


def _ends() -> list[Column]:
    from pyspark.sql import functions as F

    named = [F.sum(F.coalesce(F.col("outcomes")[name], F.lit(0))).alias(name) for name in _OUTCOMES]
    refused = F.aggregate(F.map_values("refused"), F.lit(0).cast("bigint"), lambda total, count: total + count)
    return [*named, F.sum(F.coalesce(refused, F.lit(0))).alias("refused")]


def _outcomes(links: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    keys = ("scope", "action", "address", "group", "route")
    ended = links.select(*keys, F.explode("outcomes").alias("outcome", "messages"))
    refused = links.select(*keys, F.explode("refused").alias("condition", "messages")).select(
        *keys, F.concat(F.lit("refused: "), "condition").alias("outcome"), "messages"
    )
    found = ended.unionByName(refused).groupBy(*keys, "outcome").agg(F.sum("messages").alias("messages"))
    return found.orderBy(F.desc("messages"), *keys)


def _crossings(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    keys = ("scope", "to_scope", "to_address", "to_connector", "replies", "result", "why")
    found = rows.groupBy(*keys).agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
    return found.orderBy(F.desc("messages"), *keys)


def _filters(reads: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    sums = (F.sum(name).alias(name) for name in ("scanned", "matched"))
    found = reads.groupBy(*_READER, F.array_join("filters", ", ").alias("filters")).agg(*sums)
    share = F.when(F.col("scanned") > 0, F.col("matched") / F.col("scanned"))
    return found.withColumn("selectivity", share).orderBy(F.desc("scanned"), *_READER)


def _latency(reads: DataFrame) -> DataFrame:
    """Latency by reader; quantiles are upper bounds of their classes, capped at the slowest delivery."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    slowest = reads.groupBy(*_READER).agg(F.max("slowest_ms").alias("slowest_ms"), F.sum("older").alias("older"))
    exploded = reads.select(*_READER, F.explode("latency").alias("class", "events"))
    bound = F.coalesce(F.col("class").try_cast("bigint"), F.lit(MORE))  # `more` is no number
    classes = exploded.groupBy(*_READER, bound.alias("upto_ms")).agg(F.sum("events").alias("events"))
    kind = Window.partitionBy(*_READER)
    below = F.sum("events").over(kind.orderBy("upto_ms").rowsBetween(Window.unboundedPreceding, 0))
    placed = classes.withColumns({"below": below, "all": F.sum("events").over(kind)})
    quantiles = [
        F.min(F.when(F.col("below") >= share * F.col("all"), F.col("upto_ms"))).alias(name)
        for name, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99))
    ]
    pairs = F.array_sort(F.collect_list(F.struct("upto_ms", "events"))).alias("classes")
    found = placed.groupBy(*_READER).agg(F.sum("events").alias("events"), *quantiles, pairs)
    other = found.withColumnsRenamed({name: f"{name}_" for name in _READER})
    same = reduce(lambda one, more: one & more, (F.col(name).eqNullSafe(F.col(f"{name}_")) for name in _READER))
    capped = {name: F.least(name, "slowest_ms") for name in ("p50_ms", "p90_ms", "p99_ms")}
    joined = slowest.join(other, same, "left").withColumns(capped)
    description = joined.select(*_READER, "events", "older", *capped, "slowest_ms", "classes")
    return description.orderBy(F.desc("events"), *_READER)


def _lag(reads: DataFrame, time: Column) -> DataFrame:
    """The greatest lag within each time bucket, by partition."""
    from pyspark.sql import functions as F

    each = reads.select(time, "to_ms", *_READER, F.explode("partitions").alias("at"))
    lag = F.col("at")["end"] - F.col("at")["position"]
    last = F.max_by("at", "to_ms")
    known = each.where(F.col("at")["end"].isNotNull())
    found = known.groupBy("time", *_READER, F.col("at")["partition"].alias("partition"))
    table = found.agg(F.max(lag).alias("lag"), last["position"].alias("position"), last["end"].alias("end"))
    return _ordered(table, "time", *_READER, "partition")


def _bucket(seconds: Column, width: int) -> Column:
    from pyspark.sql import functions as F

    return F.timestamp_seconds(F.floor(seconds / width) * width)


def _ordered(frame: DataFrame, *names: str) -> DataFrame:
    return frame.orderBy(*names)


def collected(frames: Mapping[str, DataFrame]) -> dict[str, tuple[pa.Table, bool]]:
    """The tables in Arrow, and whether they were truncated."""
    found = {}
    for name, frame in frames.items():
        table = frame.limit(MOST + 1).toArrow()
        found[name] = (table.slice(0, MOST), len(table) > MOST)
    return found

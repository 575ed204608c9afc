"""Spark's classes, loaded and verified once for all Sparks of the suite: an archive that Java maps into its memory.

Half of the start of a small Spark, and of its first queries, is Java reading and verifying 15,000 classes. `make parts`
does that once, in a Spark that does what the suite does, and Java writes down what came of it (class data sharing).
The archive fits one Java and one class path. Java checks that itself, and otherwise continues without it and silently,
where it does not fit; so nothing depends on it but time. Only one that is cut off would end Java: a part is put in
place as a whole.

The program is the Spark that does it: `python -m tests.support.spark.spark_classes`, run by
tests/support/project/parts.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "classes.jsa"
VARIABLE = "SPARK_SUBMIT_OPTS"
"""Options for the Java of every Spark that is started below; unlike JDK_JAVA_OPTIONS it prints no notice."""
QUICK = "-Xss16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a Java that lives for seconds."""
_SILENT = "-Xlog:cds*=off"
"""Neither what does not fit nor what could not be archived is anybody's business."""


def sharing(folder: Path) -> str:
    """Java options of those who use the archive that is in a folder, if there is one."""
    return f'"-XX:SharedArchiveFile={folder / NAME}" -Xshare:auto {_SILENT}'


def options(folder: Path) -> str:
    """Java options of every Spark of the suite; what a test asks of its own Spark comes behind them, and so wins."""
    return f"{QUICK} {sharing(folder)}"


def origins() -> Iterator[str]:
    """What an archive was made for: the version of Java, and Spark's jars with their times, which Java compares."""
    yield subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    for jar in sorted(Path(spark.origin).resolve().parent.glob("jars/*.jar")):
        about = jar.stat()
        yield f"{jar} {about.st_size} {about.st_mtime_ns}"


def making(folder: Path) -> dict[str, str]:
    """The environment in which this program makes an archive in a folder."""
    return {VARIABLE: f'"-XX:ArchiveClassesAtExit={folder / NAME}" {_SILENT}'}


# -- the work of the Spark whose classes are archived


def main() -> None:
    """Do once what the suite does often, and let Java end: it writes its classes down then."""
    from bridges.spark.session import open_session

    conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": QUICK}
    spark = open_session("classes", master="local[2]", conf=conf)
    with TemporaryDirectory() as place:
        report(spark, Path(place))
        tasks(spark, Path(place))
        stream(spark, Path(place))
    context: Any = spark.sparkContext
    java = context._gateway.proc
    spark.stop()
    java.stdin.close()  # this ends it
    sys.exit(java.wait())


def report(spark: SparkSession, place: Path) -> None:
    """Archived traffic and its report: reading, filters, windows, sums, joins."""
    from bridges.spark.archive.read import ArchiveSelection
    from bridges.spark.report.job import ReportRequest, make
    from tests.support.spark import archives
    from tests.support.spark.report import events, journal

    logs = {"orders": events(), "scopegate.journal": archives.journal(journal())}
    archive = archives.written(place / "archive", logs)
    (place / "tables").mkdir()
    make(spark, archive, ReportRequest(ArchiveSelection(filter="a.color = 'red'")), place / "tables")


def tasks(spark: SparkSession, place: Path) -> None:
    """What archive, replay and data source do: tasks in Python without rows in Java, and rows of Arrow from Python."""
    spark.sparkContext.parallelize(range(4), 4).mapPartitions(unchanged).collect()
    frame = spark.read.parquet(str(place / "archive"))
    frame.mapInArrow(unchanged, frame.schema).write.format("noop").mode("overwrite").save()
    frame.write.parquet(str(place / "again"))


def unchanged(items: Iterable[Any]) -> Iterable[Any]:
    """A step in Python that leaves everything as it is."""
    return items


def stream(spark: SparkSession, place: Path) -> None:
    """A query in micro-batches with its checkpoint."""
    source = spark.readStream.schema(spark.read.parquet(str(place / "again")).schema).parquet(str(place / "again"))
    sink = source.writeStream.format("parquet").option("path", str(place / "out"))
    sink.option("checkpointLocation", str(place / "check")).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()

"""Spark sessions of the pipeline: checks Java first; local sessions listen on loopback only."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from bridges.spark.errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA: Final = 17
LOG: Final = "SCOPEGATE_SPARK_LOG"
"""The environment variable that names a file for Spark's own output; - is stderr."""
_TASK_FAILURES: Final = 4
_TAIL: Final = 4096
_LOOPBACK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_ALWAYS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": f"{__name__.rpartition('.')[0]}.workers.daemon",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it takes half of the time to convert a filter to a column
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.log.level": "FATAL",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
}


@dataclass(frozen=True)
class SparkEngine:
    """The Spark that runs a job: master, settings, jars."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None
    """A folder with the jars that pyspark lacks; default: `jars.find_jars`."""
    say: Callable[[str], None] = lambda _: None
    """Called with a message when Spark starts, which takes some seconds."""


LOCAL: Final = SparkEngine()
"""All cores of this machine."""


def open_session(
    name: str, *, master: str = "local[*]", jars: Sequence[Path] = (), conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session. Raises `PipelineError` if Java, pyspark or the master is missing."""
    check_java()
    try:
        import pyarrow  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(f"{error.name} is not installed: pip install 'scopegate[spark]'") from None
    _silence()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(_ALWAYS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOOPBACK
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    log = os.environ.get(LOG)
    if log:
        settings["spark.log.level"] = "INFO"
    builder = SparkSession.builder.appName(f"scopegate {name}").master(with_retries(master))
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    with _log_of_java(log) as stream:
        try:
            return builder.getOrCreate()
        except Exception as error:  # py4j's error for a master that cannot be reached
            about = sentence(error)
            if about.startswith(_ENDED):  # without a reason of its own; Java may have given one
                about += _last_line(stream)
            raise PipelineError(f"Spark did not start with master {master}: {about}") from error


def _silence() -> None:
    """Keep pyspark from logging errors on stderr, with the stack of Java: the caller gets them as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def session(name: str, engine: SparkEngine = LOCAL) -> Iterator[SparkSession]:
    """A session that is stopped at the end; unexpected errors within it become a `PipelineError`."""
    spark = open_session(name, master=engine.master, conf=engine.conf)
    try:
        yield spark
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(sentence(error)) from error
    finally:
        spark.stop()


_ENDED: Final = ("its Java process ended at once", "a process of Spark is gone")
"""Errors that mean that Java has not answered."""
_FRAME: Final = re.compile(r"at \S+\(.*\)|\.\.\. \d+ more")
"""A line of the stack of Java's exceptions."""


def with_retries(master: str) -> str:
    """The master; a local one without a retry limit gets a cluster's limit for failed tasks."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{found[1] or 1},{_TASK_FAILURES}]" if found else master


@contextmanager
def _log_of_java(log: str | None) -> Iterator[BinaryIO | None]:
    """Redirect the stderr of the Java process started within to this file; by default, to a temporary file."""
    if log == "-":
        yield None
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() if log is None else Path(log).open("ab+") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield stream
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _last_line(stream: BinaryIO | None) -> str:
    """The last line that Java wrote, for an error; without the frames of an exception, which follow its text."""
    if stream is None:
        return ""
    stream.seek(max(os.fstat(stream.fileno()).st_size - _TAIL, 0))
    written = [line.strip() for line in stream.read().decode(errors="replace").splitlines()]
    lines = [line for line in written if line and not _FRAME.match(line)]
    return f" ({lines[-1]})" if lines else ""


def check_java() -> None:
    """Raise `PipelineError` if Java is missing or too old for Spark."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    fix = f"apt-get install openjdk-{JAVA}-jre-headless, or {'correct' if home else 'set'} JAVA_HOME"
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise PipelineError(f"Spark needs Java {JAVA} or later, and there is none {where}: {fix}")
    version = _version(program)
    if version is None or version < JAVA:
        what = f"is Java {version}" if version else "does not report its version"
        raise PipelineError(f"Spark needs Java {JAVA} or later, and {program} {what}: {fix}")


@cache
def _version(program: str) -> int | None:
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    return None if found is None else int(found[1])

"""Spark sessions of the pipeline: checks Java first; local sessions listen on loopback only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridges.spark.errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA: Final = 17
_LOCAL: Final = {
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
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # half of the time in which a filter becomes a column
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.log.level": "FATAL",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
}


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
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(_ALWAYS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    builder = SparkSession.builder.appName(f"scopegate {name}").master(master)
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j's error for a master that cannot be reached
        raise PipelineError(f"Spark did not start with master {master}: {sentence(error)}") from error


def check_java() -> None:
    """Raise `PipelineError` if Java is missing or too old for Spark."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    way = f"apt-get install openjdk-{JAVA}-jre-headless" + (", or set JAVA_HOME" if not home else ", or mend JAVA_HOME")
    if program is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise PipelineError(f"Spark needs Java {JAVA} or later, and there is none {where}: {way}")
    version = _version(program)
    if version is None or version < JAVA:
        what = f"is Java {version}" if version else "does not say its version"
        raise PipelineError(f"Spark needs Java {JAVA} or later, and {program} {what}: {way}")


@cache
def _version(program: str) -> int | None:
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    return None if found is None else int(found[1])

"""One Spark for the whole run: `local[2]`, small, on the loopback interface, stopped at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.project.commands import BUILD_TOOLS
from tests.support.project.parts import PARTS, folder
from tests.support.spark import spark_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LAUNCHER = "SPARK_LAUNCHER_OPTS"
"""Options for the Java that each Spark starts first, which only says how to start the other."""
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
EXPRESSIONS = "spark.sql.codegen.factoryMode"
INTERPRETED, GENERATED = "NO_CODEGEN", "FALLBACK"
"""What EXPRESSIONS may be; the latter is Spark's default."""
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # To compile code is half of the processor time of small queries. Commands in processes of their own do, and so do
    # tests of the expressions themselves (`compiled`).
    _WHOLE_STAGE: "false",
    EXPRESSIONS: INTERPRETED,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "bridges.spark.workers.daemon",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-Xss16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def pytest_configure() -> None:
    """Let every Spark of the suite, and of the commands it starts, take its classes from the archive and start fast."""
    os.environ.setdefault(spark_classes.VARIABLE, spark_classes.options(PARTS / "spark-classes"))
    os.environ.setdefault(_LAUNCHER, spark_classes.QUICK)


class Remembered:
    """A Java class whose members are looked up once, and not for each call: half of the calls that make a Column."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java, name)
        setattr(self, name, member)
        return member


def remember_functions(session: SparkSession) -> None:
    """Let Spark's Python find the functions of Columns at once."""
    jvm: Any = session.sparkContext._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        setattr(jvm, name, Remembered(getattr(jvm, name)))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session; a test that changes a configuration puts it back."""
    java = next(command for command in BUILD_TOOLS if command.name == "java")
    assert java.present(), f"Spark needs {java}"
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("scopegate-tests")
    jars = ",".join(map(str, sorted(folder("spark-kafka").glob("*.jar"))))
    for name, value in {**CONFIGURATION, "spark.jars": jars}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_functions(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Whole stages and expressions are compiled, as in production, for tests of the expressions that are compiled."""
    spark.conf.set(_WHOLE_STAGE, "true")
    spark.conf.set(EXPRESSIONS, GENERATED)
    yield
    for name in (_WHOLE_STAGE, EXPRESSIONS):
        spark.conf.set(name, CONFIGURATION[name])

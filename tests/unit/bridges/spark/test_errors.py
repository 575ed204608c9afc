"""What errors of Spark, Java and the system come down to: one sentence that names the way out."""

from __future__ import annotations

import pytest

from bridges.spark.errors import PipelineError, sentence

CALL = "An error occurred while calling o58.parquet"
NAME = "org.apache.spark.sql.api.python.PythonSQLUtils"
STACK = "\n\tat org.apache.spark.sql.execution.QueryExecution.run(QueryExecution.scala:12)\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{CALL}.\n: java.io.IOException: No space left on device{STACK}", "the disk is full"),
        (f"{CALL}.\n: java.io.IOException: File too large{STACK}", "the disk is full: a file cannot grow any further"),
        ("[Errno 122] Disk quota exceeded", "the disk is full: the quota is exhausted"),
        (CALL, f"a process of Spark is gone: {CALL}"),
        ("Answer from Java side is empty", "a process of Spark is gone: Answer from Java side is empty"),
        ("Error while sending or receiving", "a process of Spark is gone: Error while sending or receiving"),
        ("Error while receiving", "a process of Spark is gone: Error while receiving"),
        (f"{NAME} does not exist in the JVM", f"a process of Spark is gone: {NAME} does not exist in the JVM"),
        ("com.example.Jar does not exist in the JVM", "com.example.Jar does not exist in the JVM"),
        ("'JavaPackage' object is not callable", "a process of Spark is gone: 'JavaPackage' object is not callable"),
        (f"{CALL}.\n: org.apache.spark.SparkException: no luck{STACK}Caused by: more", "SparkException: no luck"),
        (
            f"{CALL}.\n: org.apache.spark.SparkException: Exception thrown in awaitResult: {STACK}Caused by: a.B: two\n"
            f"Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] one{STACK}",
            "SparkNumberFormatException: [CAST_INVALID_INPUT] one",
        ),
        (f"{CALL}.\n: ExitCodeException exitCode=1: chmod: no{STACK}", "ExitCodeException exitCode=1: chmod: no"),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/address=b/1.parquet. \n more",
            "/a/address=b/1.parquet cannot be read as Parquet",
        ),
        ("ModuleNotFoundError: No module named 'bridges'\n", "a Spark worker lacks a module, install the wheel of "
                                                             "scopegate there: No module named 'bridges'"),
        ("bridges.spark.errors.PipelineError: it is said already\n", "it is said already"),
        ("first line\nsecond line", "first line"),
    ],
)  # fmt: skip
def test_errors_become_sentences(text: str, said: str) -> None:
    assert sentence(Exception(text)) == said


def test_what_is_said_already_stays() -> None:
    assert sentence(PipelineError("as it is\nin two lines")) == "as it is\nin two lines"
    assert sentence(ValueError()) == "ValueError"
    assert sentence(EOFError()) == "a process of Spark is gone: it ended while rows were read from it"

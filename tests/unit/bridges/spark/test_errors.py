"""What errors of Spark, Java and the system come down to: one sentence that names the way out."""

from __future__ import annotations

import pytest

from bridges.spark.errors import Lasting, PipelineError, failure, sentence

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


TASK = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n    process()\n'
)


@pytest.mark.parametrize(
    ("text", "said", "lasting"),
    [
        (f"{TASK}ModuleNotFoundError: No module named 'x'", "a Spark worker lacks a module, install the wheel of "
                                                            "scopegate there: No module named 'x'", True),
        (f"{TASK}AttributeError: Can't get attribute 'X' on <module 'y'>", "a Spark worker has another version of a "
         "module, install the same wheel of scopegate there: Can't get attribute 'X' on <module 'y'>", True),
        (f"{TASK}ImportError: cannot import name 'X' from 'y'", "a Spark worker has another version of a module, "
         "install the same wheel of scopegate there: cannot import name 'X' from 'y'", True),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.11", "a Spark worker has another Python: Python in worker "
                                                                "has 3.11", True),
        (f'{CALL}.\n: Lost: java.io.IOException: Cannot run program "/p": error=2, No such file{STACK}',
         "a Spark worker does not have the Python of the job (PYSPARK_PYTHON): Cannot run program \"/p\": error=2, No "
         "such file", True),
        (f'{CALL}.\n: java.io.IOException: Cannot run program "/p": error=12, Cannot allocate memory{STACK}',
         'IOException: Cannot run program "/p": error=12, Cannot allocate memory', False),
        (f"{TASK}AttributeError: 'int' object has no attribute 'x'", "a task failed: AttributeError: 'int' object has "
                                                                     "no attribute 'x'", False),
        (f"{TASK}bridges.spark.errors.PipelineError: ModuleNotFoundError: x", "ModuleNotFoundError: x", False),
        ("Connection refused", "a process of Spark is gone: Connection refused", False),
    ],
)  # fmt: skip
def test_a_worker_that_cannot_run_the_tasks_does_not_pass(text: str, said: str, lasting: bool) -> None:
    found = failure("commit 7", Exception(text))
    assert (str(found), isinstance(found, Lasting)) == (f"commit 7: {said}", lasting)


def test_what_is_said_already_stays() -> None:
    assert sentence(PipelineError("as it is\nin two lines")) == "as it is\nin two lines"
    assert sentence(ValueError()) == "ValueError"
    assert sentence(EOFError()) == "a process of Spark is gone: it ended while rows were read from it"

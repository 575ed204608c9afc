"""Errors of the pipeline's jobs: one sentence with the cause and the remedy (docs/pipeline.md)."""

from __future__ import annotations

import re
from typing import Final


class PipelineError(Exception):
    """A job has failed; the text is for the operator."""


class Lasting(PipelineError):
    """An error that no further attempt can pass before somebody has acted."""


class Damaged(Lasting):
    """Something in an archive has a content that no further attempt can read."""


class UnfitWorker(Lasting):
    """A worker of Spark that cannot run the tasks of this job: its Python is another one, or lacks something."""


class Stopped(PipelineError):
    """A job was stopped before its end; the next run of the same job continues from there."""


_OURS: Final = re.compile(r"PipelineError: (.+)")
_UNFIT: Final = (
    (r"ModuleNotFoundError: (.+)", "a Spark worker lacks a module, install the wheel of scopegate there: {}"),
    (
        r"(?:ImportError|AttributeError): (.+ import name .+|Can't get attribute .+)",
        "a Spark worker has another version of a module, install the same wheel of scopegate there: {}",
    ),
    (r"\[PYTHON_VERSION_MISMATCH\] (.+)", "a Spark worker has another Python: {}"),
    (
        r"(Cannot run program .+ error=(?:2|13), .+)",
        "a Spark worker does not have the Python of the job (PYSPARK_PYTHON): {}",
    ),
)
"""What Spark says of a worker whose Python is another one than the driver's, or lacks something."""
_KNOWN: Final = (
    (r"FAILED_READ_FILE\S* [^\n]*?file (?:file:/{0,2})?(/\S+?)\.? ", "{} cannot be read as Parquet"),
    (r"No space left on device", "the disk is full"),
    (r"ARITHMETIC_OVERFLOW", "sums of the journal's counts exceed 2^63: select a shorter time"),
    (r"File too large", "the disk is full: a file cannot grow any further"),
    (r"Disk quota exceeded", "the disk is full: the quota is exhausted"),
    (r"SaslAuthenticationException: (.+)", "Kafka rejects the login: {}"),
    (r"TopicAuthorizationException: (.+)", "Kafka denies access: {}"),
    (r"SslAuthenticationException: (.+)", "TLS with Kafka failed: {}"),
    (r"OffsetOutOfRangeException: (.+)", "offsets were deleted from the topic while they were read: {}"),
    (r"(?:Timeout|Retriable)Exception: (.+)", "Kafka does not answer in time: {}"),
    *_UNFIT,
    (r"JAVA_GATEWAY_EXITED", "its Java process ended at once"),
    (r"Connection refused|Connection reset|Broken pipe", "a process of Spark is gone: {}"),
    (r"Error while (?:sending|receiving)[^\n]*|Answer from Java side is empty", "a process of Spark is gone: {}"),
    # when Java does not answer, py4j reports that a name does not exist
    (r"(?:org\.apache\.spark|java)\.\S+ does not exist in the JVM", "a process of Spark is gone: {}"),
    (r"'JavaPackage' object is not callable|Gateway is not connected", "a process of Spark is gone: {}"),
    (r"An error occurred while calling (?:z:)?[^\s:]+\Z", "a process of Spark is gone: {}"),
)


_TRACEBACK: Final = "An exception was thrown from the Python worker"
"""What precedes the traceback of a task."""
_CAUSE: Final = re.compile(r"^: (?:[\w$]+\.)*([\w$].*)$", re.MULTILINE)
"""The Java exception within an error of py4j."""
_WAITED: Final = re.compile(r"Exception thrown in awaitResult:(?s:.*)^Caused by: (?:[\w$]+\.)*([\w$].*)$", re.MULTILINE)
"""The last cause of an exception of Spark that says nothing itself."""


def failure(about: str, error: Exception) -> PipelineError:
    """The error for one of Spark, Java or the system, whose sentence follows `about`: `Lasting` if it will not pass."""
    text = f"{about}: {sentence(error)}"
    unfit = _OURS.search(str(error)) is None and any(re.search(pattern, str(error)) for pattern, _ in _UNFIT)
    return UnfitWorker(text) if unfit else PipelineError(text)


def sentence(error: BaseException) -> str:
    """One sentence for an error of Spark, Arrow or the system; the first line of the text of an unknown error."""
    if isinstance(error, PipelineError):
        return str(error)
    text = str(error)
    if (found := _OURS.search(text)) is not None:
        return found[1].strip()
    for pattern, message in _KNOWN:
        if (found := re.search(pattern, text)) is not None:
            return message.format(*(found.groups() or (found[0],))).strip()
    if (found := _WAITED.search(text)) is not None:
        return found[1].strip()
    if (found := _CAUSE.search(text)) is not None and text.startswith("An error occurred while calling"):
        return found[1].strip()
    if isinstance(error, EOFError):  # raised by pyspark without a text when the socket to Java ends
        return "a process of Spark is gone: it ended while rows were read from it"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith(_TRACEBACK):
        return f"a task failed: {lines[-1]}"
    return lines[0] if lines else type(error).__name__

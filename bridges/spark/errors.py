"""Errors of the pipeline's jobs: one sentence with the cause and the remedy (docs/pipeline.md)."""

from __future__ import annotations

import re
from typing import Final


class PipelineError(Exception):
    """A job has failed; the text is for the operator."""


class Stopped(PipelineError):
    """A job was stopped before its end; the next run of the same job continues from there."""


_OURS: Final = re.compile(r"PipelineError: (.+)")
_KNOWN: Final = (
    (r"FAILED_READ_FILE\S* [^\n]*?file (?:file:/{0,2})?(/\S+?)\.? ", "{} cannot be read as Parquet"),
    (r"No space left on device", "the disk is full"),
    (r"File too large", "the disk is full: a file cannot grow any further"),
    (r"Disk quota exceeded", "the disk is full: the quota is exhausted"),
    (r"SaslAuthenticationException: (.+)", "Kafka rejects the login: {}"),
    (r"TopicAuthorizationException: (.+)", "Kafka denies access: {}"),
    (r"SslAuthenticationException: (.+)", "TLS with Kafka failed: {}"),
    (r"OffsetOutOfRangeException: (.+)", "offsets were deleted from the topic while they were read: {}"),
    (r"(?:Timeout|Retriable)Exception: (.+)", "Kafka does not answer in time: {}"),
    (r"ModuleNotFoundError: (.+)", "a Spark worker lacks a module, install the wheel of scopegate there: {}"),
    (r"JAVA_GATEWAY_EXITED", "its Java process ended at once"),
    (r"Connection refused|Connection reset|Broken pipe", "a process of Spark is gone: {}"),
    (r"Error while (?:sending|receiving)[^\n]*|Answer from Java side is empty", "a process of Spark is gone: {}"),
    # when Java does not answer, py4j reports that a name does not exist
    (r"(?:org\.apache\.spark|java)\.\S+ does not exist in the JVM", "a process of Spark is gone: {}"),
    (r"'JavaPackage' object is not callable|Gateway is not connected", "a process of Spark is gone: {}"),
    (r"An error occurred while calling (?:z:)?[^\s:]+\Z", "a process of Spark is gone: {}"),
)


_CAUSE: Final = re.compile(r"^: (?:[\w$]+\.)*([\w$].*)$", re.MULTILINE)
"""The Java exception within an error of py4j."""
_WAITED: Final = re.compile(r"Exception thrown in awaitResult:(?s:.*)^Caused by: (?:[\w$]+\.)*([\w$].*)$", re.MULTILINE)
"""The last cause of an exception of Spark that says nothing itself."""


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
    return lines[0] if lines else type(error).__name__

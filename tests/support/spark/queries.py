"""Streaming queries that are started again where Spark did not wait for their Python.

Spark starts a Python for each streaming query and gives it ten seconds to connect, which no setting changes. A busy
machine can need longer. Nothing has been read or written then, so the query may start again.
"""

from __future__ import annotations

from typing import Any

from tests.support.gateway.process import wait_until

_LATE = "Python worker failed to connect back"
_TRIES = 5


def run_to_end(writer: Any) -> Any:
    """Start a query (of a DataStreamWriter) and wait for its end; returns it. Raises what it failed with."""
    for _ in range(_TRIES):
        query = writer.start()
        error = _ended(query)
        if _LATE not in str(error):
            break
    if error is not None:
        raise error
    return query


def started(writer: Any) -> Any:
    """Start a query; returns it when it waits for events or its trigger, or has ended."""
    for _ in range(_TRIES):
        query = writer.start()
        wait_until(lambda: not query.isActive or "Waiting for" in query.status["message"], "the start")  # noqa: B023
        if _LATE not in str(query.exception()):
            break
    return query


def _ended(query: Any) -> Exception | None:
    try:
        query.awaitTermination()
    except Exception as error:  # Spark's own, of several classes
        return error
    finally:
        query.stop()
    return None

"""Metrics of an archive job for Prometheus, served at a separate port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from bridges.spark.archive.monitoring.progress import ArchiveProgress
from bridges.spark.errors import PipelineError, sentence

_PREFIX: Final = "scopegate_archive_"


class ArchiveMetrics:
    """Counters since the start of the job, and its progress."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns seconds since 1970."""
        self._now: Final = now
        self.registry: Final = CollectorRegistry()
        self._rows: Final = self._counter("rows", "Events archived.", ("address",))
        self._bytes: Final = self._counter("bytes", "Bytes of the files of commits.")
        self._files: Final = self._counter("files", "Files of commits.")
        self._commits: Final = self._counter("commits", "Commits.")
        self._outages: Final = self._counter("outages", "Outages that were waited out, or that ended the job.")
        self._lasting: Final = self._gauge("outage", "Whether an outage lasts.")
        place = ("address", "partition")
        self._behind: Final = self._gauge("behind_events", "Offsets of the log that are not archived yet.", place)
        self._age: Final = self._gauge("behind_seconds", "Age of the last archived event while any is behind.")
        self._seconds: Final = self._gauge("last_commit_seconds", "How long the last commit took.")
        self._success: Final = self._gauge("last_success_timestamp_seconds", "When the last step succeeded.")

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"{_PREFIX}{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"{_PREFIX}{name}", text, labels, registry=self.registry)

    def serve(self, host: str, port: int) -> None:
        """Answer requests in a thread. Raises `PipelineError` if the port is taken."""
        try:
            start_http_server(port, host, self.registry)
        except OSError as error:
            raise PipelineError(f"metrics cannot be served at {host}:{port}: {sentence(error)}") from None

    def committed(self, progress: ArchiveProgress) -> None:
        """Record a commit."""
        for each in progress.commit.ranges:
            self._rows.labels(each.address).inc(each.rows)
        self._bytes.inc(progress.bytes)
        self._files.inc(len(progress.commit.files))
        self._commits.inc()
        for (address, partition), events in progress.behind.items():
            self._behind.labels(address, str(partition)).set(events)
        self._age.set(float("nan") if progress.behind_seconds is None else progress.behind_seconds)
        self._seconds.set(progress.seconds)
        self.idle()

    def idle(self) -> None:
        """Record that a step found nothing new, or has committed."""
        self._success.set(self._now())

    def outage(self, *, lasts: bool) -> None:
        """Record the start or the end of an outage."""
        if lasts:
            self._outages.inc()
        self._lasting.set(lasts)

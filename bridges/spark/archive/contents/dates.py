"""Prunes reads by time: only the folders of dates that may hold the wanted events are opened.

`date` is the UTC date of a row's `timestamp`. Bounds are a day wider than the times, so that neither the time zone of a
session nor a slightly wrong clock loses a row. Rows without a date (times that have no timestamp, such as those
after the year 9999) are in a folder of their own, which is always read.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from math import ceil, floor
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column

_WIDER: Final = timedelta(days=1)
_KEY: Final = "date="


class DateRange(NamedTuple):
    """The first and the last date, both inclusive; `None` means no bound."""

    first: date | None = None
    last: date | None = None

    def may_hold(self, path: str) -> bool:
        """Whether the file at this path, which is relative to the archive, may hold rows of these dates."""
        found = date_of(path)
        if found is None:
            return True
        return (self.first is None or self.first <= found) and (self.last is None or found <= self.last)

    def column(self) -> Column | None:
        """The range as a predicate on `date`, for Spark's partition filters; `None` without bounds."""
        from pyspark.sql import functions as F

        named = F.col("date")
        bounds = [] if self.first is None else [named >= F.lit(self.first)]
        bounds += [] if self.last is None else [named <= F.lit(self.last)]
        if not bounds:
            return None
        inside = bounds[0] if len(bounds) == 1 else bounds[0] & bounds[1]
        return named.isNull() | inside


def dates_of(since: datetime | None, until: datetime | None) -> DateRange:
    """The dates of events in this period, extended by a day on each side. Naive times are local times."""
    first = last = None
    with suppress(OverflowError):  # no bound beyond the ends of the calendar
        first = None if since is None else since.astimezone(UTC).date() - _WIDER
    with suppress(OverflowError):
        last = None if until is None else until.astimezone(UTC).date() + _WIDER
    return DateRange(first, last)


def date_of(path: str) -> date | None:
    """The date in the path of an archived file; `None` for the folder of rows without a date."""
    for part in path.split("/")[:-1]:
        if part.startswith(_KEY):
            with suppress(ValueError):
                return date.fromisoformat(part.removeprefix(_KEY))
    return None


def overlaps(since: datetime | None, until: datetime | None, earliest: int | None, latest: int | None) -> bool:
    """Whether events from `earliest` to `latest`, in milliseconds since 1970, may be in a period; unknown times may."""
    if since is not None and latest is not None and latest < floor(since.timestamp() * 1000):
        return False
    return until is None or earliest is None or earliest <= ceil(until.timestamp() * 1000)

"""The period of a report and the previous one of the same length (pure)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class Period(NamedTuple):
    """The times of a report; `before` is the start of the previous period, which ends at `since`."""

    since: datetime | None = None
    until: datetime | None = None
    before: datetime | None = None

    @property
    def compared(self) -> bool:
        """Whether there is a previous period to compare with."""
        return self.before is not None

    @property
    def compared_since(self) -> datetime | None:
        """The end of the previous period and start of the report's own; `None` without a previous one."""
        return self.since if self.compared else None

    @property
    def first(self) -> datetime | None:
        """The start of the earlier of both periods."""
        return self.before or self.since


def period(since: datetime | None, until: datetime | None, now: datetime) -> Period:
    """The period from `since` to `until`, or to `now`; without `since`, nothing is compared."""
    if since is None:
        return Period(until=until)
    begin, end = since.astimezone(UTC), (until or now).astimezone(UTC)
    if end <= begin or end - begin > begin - datetime.min.replace(tzinfo=UTC) - timedelta(days=1):
        return Period(since, until)
    return Period(since, until, begin - (end - begin))

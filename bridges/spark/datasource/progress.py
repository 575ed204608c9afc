"""How far a query is behind its event stream, from the progress that Spark reports (docs/pipeline.md, "Data source").

Spark gives sources in Python no metrics of their own (`SourceProgress.metrics` is empty), but it reports the offsets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress

LOG = "log"
"""The key of the identity of the log in an offset of a stream, beside the next offset of each partition."""


def offsets_behind(source: SourceProgress) -> dict[int, int]:
    """The number of offsets of each partition that the node had beyond the end of the micro-batch, when it was planned.

    `source` is of this data source: `query.lastProgress.sources[0]`, or one of a `StreamingQueryListener`'s event. The
    result is empty before the first micro-batch. With the option `filter`, not every offset is an event of the query.
    """
    latest, end = json.loads(source.latestOffset or "null"), json.loads(source.endOffset or "null")
    if latest is None or end is None:
        return {}
    read = end if end.get(LOG) == latest.get(LOG) else {}
    return {int(name): max(offset - read.get(name, 0), 0) for name, offset in latest.items() if name.isdigit()}

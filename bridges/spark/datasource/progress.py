"""The lag of a query behind its event stream, from the progress that Spark reports (docs/pipeline.md, "Data source").

Sources in Python cannot report metrics (`SourceProgress.metrics` is empty), but Spark reports their offsets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress

LOG = "log"
"""The key, in a stream's offset, of the log's identity; the other keys are partitions with their next offsets."""


def offsets_behind(source: SourceProgress) -> dict[int, int]:
    """The lag by partition: the number of offsets beyond the end of the micro-batch when it was planned.

    `source` is the progress of this source: `query.lastProgress.sources[0]`, or from a `StreamingQueryListener`. The
    result is empty before the first micro-batch. With the option `filter`, not every offset is an event of the query.
    """
    latest, end = json.loads(source.latestOffset or "null"), json.loads(source.endOffset or "null")
    if latest is None or end is None:
        return {}
    read = end if end.get(LOG) == latest.get(LOG) else {}
    return {int(name): max(offset - read.get(name, 0), 0) for name, offset in latest.items() if name.isdigit()}

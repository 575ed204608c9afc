"""The folder of a row: the UTC date of its timestamp, unless that file would have only a few rows (docs/pipeline.md).

Producers may set any timestamp. A date gets a folder in a commit if a batch of rows has few dates, if at least one row
in eight of a batch has this date, or if at least ten rows and one in a hundred have it. All other rows, and those
without a timestamp, go to the folder without a date.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from bridges.spark.columns.batch_decoder import Int64s

UNDATED: Final = 1 << 40
"""The day that stands for the folder without a date."""
FEW: Final = 8
"""Number of dates in a batch up to which all of them get folders."""
SHARE: Final = 100
LEAST: Final = 10
"""With more dates in a batch, a date needs one row in `FEW`, or one in `SHARE` and at least this many rows."""


def folder_days(timestamps: pa.Array) -> Int64s:
    """The day of each row's folder, in days since 1970, or `UNDATED`."""
    days: Int64s = timestamps.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()).fill_null(UNDATED).to_numpy()
    days = days.copy()
    found, counts = np.unique(days, return_counts=True)
    if len(found) > FEW:
        rare = found[(counts * FEW < len(days)) & ((counts < LEAST) | (counts * SHARE < len(days)))]
        days[np.isin(days, rare)] = UNDATED
    return days

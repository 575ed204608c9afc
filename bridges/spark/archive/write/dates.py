"""The folder of a row: the UTC date of its timestamp, unless that would make a file of a few rows (docs/pipeline.md).

Producers may give records any time. A date has a folder in a commit if a batch of rows has few dates, or if at least
one row in eight of a batch is of it, or ten rows and one in a hundred. All other rows are in the folder without a date,
as are those without a timestamp.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from bridges.spark.columns.batch_decoder import Int64s

UNDATED: Final = 1 << 40
"""The day of rows in the folder without a date."""
FEW: Final = 8
"""Dates of a batch that all have folders."""
SHARE: Final = 100
LEAST: Final = 10
"""A date that is not among few has one in `FEW` rows of a batch, or one in `SHARE` and at least this many."""


def folder_days(timestamps: pa.Array) -> Int64s:
    """The day of each row's folder, in days since 1970, or `UNDATED`."""
    days: Int64s = timestamps.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()).fill_null(UNDATED).to_numpy()
    days = days.copy()
    found, counts = np.unique(days, return_counts=True)
    if len(found) > FEW:
        rare = found[(counts * FEW < len(days)) & ((counts < LEAST) | (counts * SHARE < len(days)))]
        days[np.isin(days, rare)] = UNDATED
    return days

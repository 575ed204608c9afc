"""Starts the Python workers of Spark's tasks with the modules that tasks need already loaded.

Spark's own daemon forks a worker for each concurrent task, and each worker imports the modules of its first task: 0.4 s
of processor time, half of it for pandas, which pyarrow tries to import. This daemon imports them before it forks.
`session.open_session` sets `spark.python.daemon.module` to this module; other sessions may do so as well.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.daemon import manager

import bridges.spark.archive.write.task
import bridges.spark.datasource.source
import bridges.spark.replay.task  # noqa: F401

if __name__ == "__main__":
    pa.array(np.zeros(1))  # makes pyarrow import pandas
    manager()

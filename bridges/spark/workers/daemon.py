"""Starts the Python workers of Spark's tasks, with the modules loaded that tasks need.

Spark's own daemon forks a worker for each task that runs at the same time, and each worker imports what its first task
needs: 0.4 s of processor time, of which pandas, which pyarrow looks for, takes half. Here the daemon has them before it
forks. `session.open_session` names this module in `spark.python.daemon.module`, which other sessions may do as well.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.daemon import manager

import bridges.spark.archive.write.task
import bridges.spark.datasource.source
import bridges.spark.replay.task  # noqa: F401

if __name__ == "__main__":
    pa.array(np.zeros(1))  # which looks for pandas
    manager()

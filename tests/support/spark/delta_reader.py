"""Archives into a Delta table, then reads that with delta-spark, as users do, and prints what it found as JSON.

`python -m tests.support.spark.delta_reader TABLE …`, where … is what follows `scopegate pipeline`. Both have one Java,
for it takes longer to load Delta than to do either; Delta forgets in between what it knows of the table.
"""

from __future__ import annotations

import json
import sys
from unittest.mock import patch

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from tests.support.spark.pipeline import here


def main(table: str, *call: str) -> None:
    """What is in each version of the table, and what is in the last one."""
    with patch.object(SparkSession, "stop", lambda _: None):
        done = here(*call)
    assert done.returncode == 0, done.stderr
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    versions = [row.version for row in DeltaTable.forPath(spark, table).history().collect()]
    rows = spark.read.format("delta").load(table)
    first = spark.read.format("delta").option("versionAsOf", 0).load(table)
    places = rows.orderBy("partition", "offset").select("partition", "offset").collect()
    skipped = rows.where("address = 'orders/eu' and partition = 1 and offset >= 10").count()
    found = {"versions": sorted(versions), "first": first.count(), "part": skipped, "places": list(map(tuple, places))}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Reads a Delta table with delta-spark, as users do: `python -m tests.support.spark.delta_reader TABLE` prints JSON."""

from __future__ import annotations

import json
import sys

from delta.tables import DeltaTable

from bridges.spark.archive.delta import CONF
from bridges.spark.session import open_session
from tests.support.project.parts import folder


def main(table: str) -> None:
    """What is in each version of the table, and what is in the last one."""
    spark = open_session("reader", master="local[2]", jars=sorted(folder("spark-delta").glob("*.jar")), conf=CONF)
    versions = [row.version for row in DeltaTable.forPath(spark, table).history().collect()]
    rows = spark.read.format("delta").load(table)
    first = spark.read.format("delta").option("versionAsOf", 0).load(table)
    places = rows.orderBy("partition", "offset").select("partition", "offset").collect()
    skipped = rows.where("address = 'orders/eu' and partition = 1 and offset >= 20").count()
    found = {"versions": sorted(versions), "first": first.count(), "part": skipped, "places": list(map(tuple, places))}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Topics and event-stream nodes as Parquet files with a manifest, and as a Delta table.

`store` is the archive of a folder, `read` a selection of it, `verification` and `topic_audit` check it; `archiving` has
the job that writes. Uses bridges.kafka.records, and bridges.spark.columns for the layout.
"""

"""Topics and event-stream nodes as Parquet files with a manifest, and as a Delta table.

`store` is the archive, `read` selects its rows, `verification` and `topic_audit` check it, and `archiving` has the job
that writes it. Uses bridges.kafka.records, and bridges.spark.columns for the layout.
"""

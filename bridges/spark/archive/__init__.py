"""Topics and event-stream nodes as Parquet files with a manifest, and as a Delta table.

Uses bridges.kafka.records, bridges.spark.columns for the layout and bridges.spark.datasource to read over AMQP.
"""

"""Topics and event-stream nodes as Parquet files with a manifest, and as a Delta table."""

"""Encoded messages as columns, for record batches, the Spark source and the archive (docs/columns.md)."""

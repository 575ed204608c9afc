"""Filters of links over Arrow record batches, without Spark: a public API for programs that read the archive.

No module of the product imports it; docs/columns.md describes it, and tests compare it with the gateway's own filters.
Uses bridges.spark.columns and gateway.filters.
"""

from bridges.spark.columns.arrow.operations import compile_filter, compile_verdict, promote

__all__ = ["compile_filter", "compile_verdict", "promote"]

"""Rewrites files of an archive while others read it: `compact`, `expire` and `erase`. Needs no Spark.

Uses bridges.spark.archive.store and its manifest.
"""

"""The manifest of an archive: its commits, one file each, and checkpoints that replace the older ones.

Uses bridges.spark.archive.contents.ranges. `bridges.spark.archive.store` writes it.
"""

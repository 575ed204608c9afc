"""How commits get into an archive: `folder` with locks and renames, `objects` with conditional requests.

`protocol` is their common interface. `bridges.spark.archive.store` chooses one by the path of the archive.
"""

"""Views of an archive for analysts, as SQL: properties, keys and bodies in plain columns.

Uses bridges.spark.archive for the files and bridges.spark.columns for the layout; no engine runs here.
"""

"""Views of an archive for analysts, as SQL of Spark and of duckdb: properties, keys and bodies in plain columns.

Uses bridges.spark.archive for the files and bridges.spark.columns for the layout; neither Spark nor duckdb runs here.
"""

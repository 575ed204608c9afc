"""Predicates over columns for any columnar engine: check what columns can answer, compile, evaluate.

Uses gateway.filters and bridges.spark.columns.schema; `bridges.spark.columns.arrow` and `bridges.spark.column` are the
engines.
"""

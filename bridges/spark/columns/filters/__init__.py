"""Evaluates predicates over columns with any columnar engine, after a check that columns can answer them.

Uses gateway.filters and bridges.spark.columns.schema; `bridges.spark.columns.arrow` and `bridges.spark.column` are the
engines.
"""

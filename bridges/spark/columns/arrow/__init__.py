"""Predicates over columns, run by Arrow without Spark."""

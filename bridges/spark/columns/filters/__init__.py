"""Predicates over whole columns: compiled once, run by Arrow or by Spark."""

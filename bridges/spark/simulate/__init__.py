"""Simulation: what a candidate policy would have done to past traffic.

Uses bridges.spark.archive, gateway.journal rows, gateway.response and gateway.filters for the decisions, and policies.
"""

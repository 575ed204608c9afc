"""Replay: sends archived events again, in their order.

Uses bridges.spark.archive, gateway.client and bridges.kafka.produce.
"""

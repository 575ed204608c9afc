"""Replay: sends archived events again, in their order.

Uses bridges.spark.archive, bridges.spark.amqp and bridges.kafka.produce.
"""

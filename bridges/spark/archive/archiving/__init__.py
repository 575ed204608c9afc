"""The job that archives: where its events come from, and one commit after the other.

Uses every other room of the archive, and bridges.spark.datasource to read over AMQP.
"""

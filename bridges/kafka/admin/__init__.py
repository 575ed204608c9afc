"""Requests to a cluster: topics, offsets and samples; committed offsets for lag tools; the embedded cluster.

Uses `errors` and `librdkafka` of the bridge, and `records` for samples. Everything but `offset_queries` blocks.
"""

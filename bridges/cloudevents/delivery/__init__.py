"""Delivery: the queue of one subscription with order, retries, rate and circuit breaker, and its stored checkpoint.

Pure: time is an argument, and nothing here reads or sends. `sink` is the protocol of what sends. The room uses `events`
and `model`.
"""

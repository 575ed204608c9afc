"""Kafka transactions behind AMQP transactions (KM-14).

`pool` has the clients of a cluster, each with one open transaction; `branch` is the part of a cluster in one AMQP
transaction; `client` makes the blocking calls of a client in a thread.
"""

"""A Kafka cluster of the policy: whether it is reachable, its topics, requests to it, and the readers of its topics.

Uses `admin`, `consume` and `common` of the bridge.
"""

"""Leases of partitions for consumer groups: rules, stores and the leases of this process (ES 4.5, KM-10).

`group`, `balance` and `claim` are pure rules; `store` and `redis_store` keep records; links use `manager.Leases`.
"""

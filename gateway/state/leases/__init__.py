"""Leases of partitions for consumer groups: rules, stores and this process's part (ES 4.5, KM-10).

`group`, `balance` and `claim` are pure rules; `store` and `redis_store` store records; links use `manager.Leases`.
"""

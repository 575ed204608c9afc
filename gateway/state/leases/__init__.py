"""Leases of partitions for consumer groups: the rules, their stores, and this process's part (ES 4.5, KM-10)."""

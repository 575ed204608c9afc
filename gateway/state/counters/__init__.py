"""Counters and values that expire, the same for all gateways: uses of cookies, and long cookies (RA 2.3.2).

`store.CounterStore` is the protocol; the one in memory is for one process, the one in Redis for several.
"""

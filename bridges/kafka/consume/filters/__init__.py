"""Message filters evaluated on Kafka records before the records are encoded as messages (FX 2-5, KM-13). Pure.

Uses `records` (how messages are stored) and `gateway/filters` (what a filter means).
"""

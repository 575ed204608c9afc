"""Message filters evaluated on Kafka records, before those become messages (FX 2-5, KM-13). Pure.

Uses the rooms `records` (how messages are stored) and `gateway/filters` (what a filter means).
"""

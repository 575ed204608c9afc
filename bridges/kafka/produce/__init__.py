"""Writing to topics: producers, delivery reports, dead letters; rows of the gateway itself; replays.

Uses `records` and `clusters` of the bridge.
"""

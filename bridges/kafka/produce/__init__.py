"""From send links to topics: producers, delivery reports, dead letters; rows of the gateway itself; replays.

Uses `records` and the cluster of the bridge.
"""

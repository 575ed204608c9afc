"""Reading: where a subscription starts in its streams, its reader of each, and the filters evaluated once for all.

A reader offers matching events to a `delivery.queue`. The room uses `events` for filters and `bridges.kafka` for logs.
"""

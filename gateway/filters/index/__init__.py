"""Many filters over one stream of messages: which of them match, looked up instead of asked one by one.

Filters come and go at the cost of their own size. Each waits under keys (`keys`) in tables (`lookup`): a message's
fields are read once, what waits under one of their values, or under a beginning or an end of a text, is evaluated, and
the others are never looked at. What has no such key is evaluated for every message, terms that several share once.
Equal filters are one. Nodes, topics and subscriptions use it; it knows none of them. Pure.

What was tried and measured: docs/decisions/0003-filters.md.
"""

from gateway.filters.index.index import PredicateIndex

__all__ = ["PredicateIndex"]

"""The index of many filters over one stream of messages: looks up those that match instead of evaluating each.

Adding or removing a filter costs as much as its own size. Each filter is stored under keys (`keys`) in tables
(`lookup`). The fields of a message are read once; the filters under one of their values, or under a beginning or an end
of a text, are evaluated, and the others are never looked at. A filter without a key is evaluated for every message, but
terms that several filters share only once. Equal filters are one. Nodes, topics and subscriptions use the index.

Pure: uses `gateway.filters.evaluate`. Measurements: docs/decisions/0003-filters.md.
"""

from gateway.filters.index.index import PredicateIndex

__all__ = ["PredicateIndex"]

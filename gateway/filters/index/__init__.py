"""An index of many filters over one stream of messages: looks up the filters that may match instead of evaluating each.

The cost of adding or removing a filter depends only on its own size. Each filter is stored under keys (`keys`) in
tables (`lookup`). The fields of a message are read once; only filters whose key is a field's value, or a prefix or
suffix of it, are evaluated. A filter without a key is evaluated for every message, but a term that several of them
share is evaluated only once. Equal filters share one entry. Nodes, topics and subscriptions use the index.

Pure: uses `gateway.filters.evaluate`. Measurements: docs/decisions/0003-filters.md.
"""

from gateway.filters.index.index import PredicateIndex

__all__ = ["PredicateIndex"]

"""Reading topics: a few Kafka clients fetch for many links, and each link is given the events that its filter selects.

An event passes `poll`, `reader` (a thread), `fetch_scheduler`, `batches`, `selection` and `filters`; then a link of
`links` delivers it. Uses `common` and `records` of the bridge, and the gateway's filters.
"""

"""From topics to receive links: a few Kafka clients fetch for many links, which filter, deliver and redeliver events.

An event passes `poll`, `reader` (a thread), `fetch_scheduler`, `batches`, `selection` and `filters`, and `link`. Uses
`admin`, `records` and `groups` (durable positions) of the bridge, and the gateway's filters and links.
"""

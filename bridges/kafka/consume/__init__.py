"""Topics to receive links: a few Kafka clients fetch for many links, which select, filter, deliver and redeliver.

The way of an event: `poll`, `reader` (a thread), `fetch_scheduler`, `batches`, `selection` and `filters`, `link`. Uses
`admin`, `records` and `groups` (durable positions) of the bridge, and the gateway's filters and links.
"""

"""Dispatch: the subscriptions of one manager that this process delivers, each by a delivery worker.

`dispatcher` starts and stops workers; `slices` decides which subscriptions are delivered here, by leases; `worker`
connects a stream reader, a delivery queue and a sink. The room uses `reading`, `delivery`, the
clusters of `bridges.kafka`, and leases and stored termini of `gateway.state`.
"""

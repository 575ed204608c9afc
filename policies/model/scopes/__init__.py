"""The keys of a scope, each list in the module of its key: listen, connect, addresses, access,
bridge, api, subscriptions (its entries of `sinks` in `sinks`).

`assignment` and `reading` have the types of those keys of a Kafka rule that the gateway uses as a whole.
"""

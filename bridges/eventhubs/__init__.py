"""The dialect of Azure Event Hubs' clients at a listener (`dialect: eventhubs`), an adapter at the edge.

It translates what these clients say into what any client says, before the resolver sees it: tokens into users,
addresses, selectors and link properties into those of event streams, batches into messages, and annotations of events
back. No other room knows it; only the composition root imports it. It uses `gateway` and `policies`, and no other
bridge. `dialect.EventHubs` is its face.
"""

"""One account of what the gateway holds for others: bytes per connection, per user and for the process.

`accounts` has the counters and the decisions, pure; `container` says how much memory there is, `allocator` gives back
what is free. Connections charge what their engines hold once a turn (`gateway.amqp.engine.pressure`); Kafka's readers
charge what they have read. Nobody else counts: what a node, a queue or a journal keeps of a message is held for a
delivery that has no outcome yet, and that is counted where it came in.
"""

"""Accounts of the memory that the gateway holds for peers: bytes per connection, per user and for the process.

`account` has the counters and the decisions, pure; `container` reads the memory limit, `allocator` returns free memory
to the system, `logs` divides the memory for event logs. Connections charge what their engines hold once per turn of the
loop (`gateway.amqp.engine.pressure`); Kafka's readers charge what they have read. Nothing else is counted: a message
in a node, a queue or a journal belongs to a delivery without an outcome, which is counted where it came in.
"""

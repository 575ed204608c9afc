"""Transactions at the container of a connector, through its coordinator (AMQP 1.0 part 4; KM-14, decision 83).

`coordinator` is the link that declares and discharges, `branch` the container's part of one transaction, `states` its
state machine, `work` the posts and retirements of clients, `node` the mixin for nodes that pass them on, and `resource`
the resource that clients' transactions enlist: one per connector.
"""

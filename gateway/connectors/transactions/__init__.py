"""Transactions at the container of a connector, by its own coordinator (AMQP 1.0 part 4; KM-14, decision 83).

`coordinator` is the link that declares and discharges there, `branch` the container's part of one transaction, `states`
its state machine, `work` what clients send and settle, `node` what the nodes of a container do with that, and
`resource` what clients' transactions enlist: one for each connector.
"""

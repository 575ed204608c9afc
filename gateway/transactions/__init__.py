"""Transactions (AMQP 1.0 part 4): the coordinator, and the transactions of each connection.

A transaction has one resource, which its first post or retirement decides: a Kafka cluster, or the direct nodes of this
gateway. Work on another resource is refused when it is posted, because both could not be committed together. `states`
has the state machine and `wire` the messages (both pure), `transaction` one transaction, `table` those of a connection,
`coordinator` the link that controls them, and `buffered` the resource of direct nodes. What is to be done for very many
messages is on the transaction's `agenda` (`gateway.agenda`).
"""

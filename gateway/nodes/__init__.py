"""Nodes at addresses, and the resolver that finds them for a user.

`base` has the protocols of nodes and of the resolver, `scope` the resolver of a scope, `factories` the node of each
route. May use `amqp`, `filters`, `links`, `routing` and `policies.rules`; nothing here imports a bridge, a connector or
the server.
"""

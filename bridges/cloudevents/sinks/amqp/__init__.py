"""The AMQP sink (AMQP binding): an address of the scope, the container of a connector, or any container.

`deliveries` holds messages until there is credit, and then their outcomes; `local` and `container` are the links that
send them. The room uses the links and connectors of `gateway`.
"""

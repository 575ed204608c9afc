"""The AMQP sink: an address of the scope, the container of a connector, or any container (AMQP binding)."""

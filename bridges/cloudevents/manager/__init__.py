"""The subscription manager: its operations, and their HTTP and AMQP bindings (CE 3.2.4 to 3.4)."""

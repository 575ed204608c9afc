"""The subscription manager: its operations, and their bindings to HTTP and AMQP (CE 3.2.4 to 3.4)."""

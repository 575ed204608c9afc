"""The bindings of the manager's operations: HTTP (CE 3.3) and AMQP (CE 3.4). Uses `manager` and nothing below it."""

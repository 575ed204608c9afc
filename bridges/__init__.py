"""What the gateway leads to besides AMQP: each package here is one system, and only the composition root imports it."""

"""`format("scopegate")`: event-stream nodes over AMQP in Spark, both ways."""

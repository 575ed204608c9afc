"""A blocking AMQP client for Spark's tasks, on the gateway's own engine. Uses gateway.amqp; no Spark."""

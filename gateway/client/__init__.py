"""A blocking AMQP client on the gateway's own engine: for the commands that talk to a server, and for Spark's tasks.

It may use `gateway.amqp`; it knows nothing of servers, Kafka and Spark.
"""

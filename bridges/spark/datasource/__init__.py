"""`format("scopegate")`: reads event-stream nodes over AMQP into Spark, and writes rows to AMQP addresses.

Uses gateway.client and bridges.spark.columns, and the archive's atomic writes.
"""

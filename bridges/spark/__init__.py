"""The data pipeline on Spark: archive, replay, data source, simulation, report. Needs the extra `[spark]`.

`jobs` is its API; `cli` has the commands of `scopegate pipeline`. Uses the gateway's AMQP engine, filters and journal
rows, bridges.kafka for records and offsets, and policies. Only the composition root imports this package.
"""

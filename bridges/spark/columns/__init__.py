"""Encoded messages as columns, for record batches, the Spark source and the archive (docs/columns.md).

`schema` defines the layout and `rows.record_batch` fills it; `filters` evaluates predicates over columns, `arrow` with
Arrow. Pure: uses gateway.amqp.codec, gateway.amqp.message and gateway.filters, numpy and pyarrow; no Spark.
"""

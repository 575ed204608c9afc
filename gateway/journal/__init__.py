"""The journal of decisions at the boundary (docs/journal.md): facts with counts, written to a Kafka topic.

`recorder` has the table, `link_counts` counts messages, `readings` counts what is read of event logs, `rows` is the
format, `writer` takes rows to Kafka and `journaling` puts them together. Links, nodes and transforms know the journal
by protocols of `gateway.links.link`.
"""

"""`scopegate pipeline quickstart`: the guided walk through the pipeline, on an embedded Kafka."""

"""The guided walkthrough of the pipeline, on an embedded Kafka: `scopegate pipeline quickstart`.

Uses gateway.quickstart, and runs the commands of bridges.spark.cli in a separate process.
"""

"""Payloads with a schema registry: schemas are fetched by id, and Avro, Protobuf and JSON become JSON text.

Uses bridges.spark.archive.manifest for the type of JSON, and bridges.spark.views for columns of JSON.
"""

"""The commands of `scopegate pipeline`: one module for each group of them.

Importing `pipeline` needs neither Spark nor Java; each command imports bridges.spark.jobs or its package when it runs.
The gateway's command line finds `pipeline` through gateway.server.composition.
"""

"""The pipeline's jobs as functions, for the command line and for Python: all inputs are arguments.

Uses every package of the pipeline except the command line.
"""

from bridges.spark.archive.archiving.job import LogBounds
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.errors import PipelineError, Stopped, sentence
from bridges.spark.jobs.archive import archive_node, archive_topics, compare_topics, fetch_jars, verify
from bridges.spark.jobs.replay import replay_to_address, replay_to_topic
from bridges.spark.session import SparkEngine

__all__ = [
    "ArchiveSelection",
    "LogBounds",
    "PipelineError",
    "SparkEngine",
    "Stopped",
    "archive_node",
    "archive_topics",
    "compare_topics",
    "fetch_jars",
    "replay_to_address",
    "replay_to_topic",
    "sentence",
    "verify",
]

"""Writes the files of a commit: tasks of Spark read their ranges of the log and write Parquet.

`chunks` divides a commit among tasks; `records` and `decode` turn Kafka records into rows; `files` writes Parquet by
address and date; `task` runs in a task and reports; `check` compares the reports with the files and the ranges.
"""

"""How a commit's events become files: in tasks of Spark, which read their ranges of the log and write Parquet.

`chunks` divides a commit among tasks; `records` and `decode` make rows of Kafka records; `files` writes Parquet by
address and date; `task` is what a task does and reports; `check` compares the reports with the files and the ranges.
"""

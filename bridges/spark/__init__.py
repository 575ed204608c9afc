"""The data pipeline on Spark: archive, replay, data source, simulation, report. Needs the extra `[spark]`."""

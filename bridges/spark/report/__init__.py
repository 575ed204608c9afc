"""The report of an archive and its journal: tables, plots and one page of HTML.

Uses bridges.spark.archive, the journal rows of bridges.spark.simulate, and matplotlib.
"""

"""The report of an archive and its journal: tables, plots and one page of HTML."""

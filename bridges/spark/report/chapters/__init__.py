"""The chapters of the report's page: plots, tables and the sentences between them."""

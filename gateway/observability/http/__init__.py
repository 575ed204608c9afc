"""The operator's HTTP port."""

"""Rendering of a report: numbers and times as text, tables, plots, and HTML with its style."""

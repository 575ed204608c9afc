"""What a report is drawn with: numbers and times as text, tables, plots, and HTML with its style."""

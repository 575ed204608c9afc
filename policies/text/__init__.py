"""The text of a policy file: its YAML as plain data with positions, and mistakes with their place. Pure."""

"""The commands of `scopegate pipeline`. Importing them needs neither Spark nor Java."""

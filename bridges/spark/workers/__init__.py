"""The Python processes of Spark's tasks. It may import every package whose code runs in tasks; nothing imports it."""

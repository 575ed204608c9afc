"""The Python processes of Spark's tasks. It may use all rooms whose code runs in tasks; nothing imports it."""

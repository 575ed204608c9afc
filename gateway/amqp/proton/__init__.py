"""proton's C engine as this gateway calls it: its objects, their data, and many deliveries in one call.

Uses codec and message, and nothing of the rooms above. The functions of `_batch.c` are called through `batch`.
"""

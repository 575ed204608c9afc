"""The delivery state of one subscription: order, windows, retries, positions. Pure: time is an argument."""

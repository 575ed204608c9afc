"""What one subscription has under way: order, windows, retries, positions. Pure: time is an argument."""

"""What is measured: each case measures both sides and returns its figures."""

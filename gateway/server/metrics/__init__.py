"""What the metrics say of the running gateway as a whole; each link and cluster counts for itself."""

"""What stays in memory when connections and links end."""

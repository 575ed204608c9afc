"""What tests read of the project itself: its matrix, parts, native modules and container file."""

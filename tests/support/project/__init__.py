"""Parts of the project that tests read: its matrix, parts, native modules and container file."""

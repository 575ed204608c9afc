"""Records as CloudEvents, and their encodings for each protocol binding. Pure."""
